package io.lakeward.spark.define;

import io.lakeward.rpc.v1.AddPartitionsStatement;
import io.lakeward.rpc.v1.AlterTableStatement;
import io.lakeward.rpc.v1.CreateDatabaseStatement;
import io.lakeward.rpc.v1.CreateTableStatement;
import io.lakeward.rpc.v1.DropDatabaseStatement;
import io.lakeward.rpc.v1.DropPartitionsStatement;
import io.lakeward.rpc.v1.DropTableStatement;
import io.lakeward.rpc.v1.ShowPartitionsRequest;
import io.lakeward.spark.call.IdempotencyKeys;
import io.lakeward.spark.error.LakewardException;
import io.lakeward.spark.service.ServiceClient;
import io.lakeward.spark.service.SparkUser;
import io.lakeward.spark.service.TablePaths;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;

/**
 * Hands statements that define databases and tables to the service, which decides and applies them.
 * Thread-safe.
 *
 * <p>Each request has an idempotency key, which is the same if Spark Connect runs the statement
 * again. One statement makes at most one request of each kind, so the kind is part of the key.
 */
public final class Definitions {

  private final ServiceClient service;

  public Definitions(ServiceClient service) {
    this.service = service;
  }

  /** Throws NamespaceAlreadyExistsException, by which Spark knows that IF NOT EXISTS is met. */
  public void createDatabase(String name, Map<String, String> properties)
      throws LakewardException, NamespaceAlreadyExistsException {
    CreateDatabaseStatement statement =
        CreateDatabaseStatement.newBuilder()
            .setDatabaseName(name)
            .putAllProperties(properties)
            .setCaller(SparkUser.current())
            .setIdempotencyKey(key("create"))
            .build();
    boolean isNew =
        service.define(SparkUser.served(), "CREATE DATABASE", stub -> stub.createDatabase(statement));
    if (!isNew) {
      throw new NamespaceAlreadyExistsException(new String[] {name});
    }
  }

  public void dropDatabase(String name, boolean cascade) throws LakewardException {
    DropDatabaseStatement statement =
        DropDatabaseStatement.newBuilder()
            .setDatabaseName(name)
            .setCascade(cascade)
            .setCaller(SparkUser.current())
            .setIdempotencyKey(key("drop"))
            .build();
    service.define(SparkUser.served(), "DROP DATABASE", stub -> stub.dropDatabase(statement));
  }

  /** Throws TableAlreadyExistsException, by which Spark knows that IF NOT EXISTS is met. */
  public void createTable(
      String database,
      String name,
      Column[] columns,
      Transform[] partitions,
      Map<String, String> properties)
      throws LakewardException, TableAlreadyExistsException {
    CreateTableStatement statement =
        CreateTableStatement.newBuilder()
            .setTablePath(TablePaths.of(database, name))
            .setColumnsJson(Columns.json(columns))
            .addAllPartitioning(Columns.partitioning(partitions))
            .putAllProperties(properties)
            .setCaller(SparkUser.current())
            .setIdempotencyKey(key("create"))
            .build();
    boolean isNew =
        service.define(SparkUser.served(), "CREATE TABLE", stub -> stub.createTable(statement));
    if (!isNew) {
      throw new TableAlreadyExistsException(Identifier.of(new String[] {database}, name));
    }
  }

  public void alterTable(String database, String name, TableChange... changes)
      throws LakewardException {
    AlterTableStatement.Builder statement =
        AlterTableStatement.newBuilder()
            .setTablePath(TablePaths.of(database, name))
            .setCaller(SparkUser.current())
            .setIdempotencyKey(key("alter"));
    for (TableChange change : changes) {
      statement.addChanges(TableChanges.message(change));
    }
    service.define(
        SparkUser.served(), "ALTER TABLE", stub -> stub.alterTable(statement.build()));
  }

  /** {@code purge}: drops the table in the lake, too. */
  public void dropTable(String database, String name, boolean purge) throws LakewardException {
    DropTableStatement statement =
        DropTableStatement.newBuilder()
            .setTablePath(TablePaths.of(database, name))
            .setPurge(purge)
            .setCaller(SparkUser.current())
            .setIdempotencyKey(key("drop"))
            .build();
    service.define(SparkUser.served(), "DROP TABLE", stub -> stub.dropTable(statement));
  }

  /** {@code partitions}: rows with the columns of {@code schema}. An existing one stays. */
  public void addPartitions(String database, String name, InternalRow[] partitions, StructType schema)
      throws LakewardException {
    AddPartitionsStatement statement =
        AddPartitionsStatement.newBuilder()
            .setTablePath(TablePaths.of(database, name))
            .addAllPartitions(Columns.values(partitions, schema))
            .setCaller(SparkUser.current())
            .setIdempotencyKey(key("add-partitions"))
            .build();
    service.define(
        SparkUser.served(), "ALTER TABLE ADD PARTITION", stub -> stub.addPartitions(statement));
  }

  /** {@code partitions}: rows with the columns of {@code schema}. */
  public void dropPartitions(String database, String name, InternalRow[] partitions, StructType schema)
      throws LakewardException {
    DropPartitionsStatement statement =
        DropPartitionsStatement.newBuilder()
            .setTablePath(TablePaths.of(database, name))
            .addAllPartitions(Columns.values(partitions, schema))
            .setCaller(SparkUser.current())
            .setIdempotencyKey(key("drop-partitions"))
            .build();
    service.define(
        SparkUser.served(), "ALTER TABLE DROP PARTITION", stub -> stub.dropPartitions(statement));
  }

  /** All partitions of a table, as rows with the columns of {@code schema}. */
  public InternalRow[] partitions(String database, String name, StructType schema)
      throws LakewardException {
    ShowPartitionsRequest request =
        ShowPartitionsRequest.newBuilder().setTablePath(TablePaths.of(database, name)).build();
    return service.partitions(SparkUser.served(), request, schema);
  }

  private static String key(String kind) {
    return IdempotencyKeys.ofStatement() + "/" + kind;
  }
}
