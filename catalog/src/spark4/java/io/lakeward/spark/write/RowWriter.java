package io.lakeward.spark.write;

import com.google.protobuf.ByteString;
import io.lakeward.rpc.v1.ExecutorWrite;
import io.lakeward.rpc.v1.OpenWriteRequest;
import io.lakeward.rpc.v1.OpenWriteResponse;
import io.lakeward.rpc.v1.PbTablePath;
import io.lakeward.rpc.v1.WriteOperation;
import io.lakeward.spark.error.LakewardException;
import io.lakeward.spark.fresh.PythonRunner;
import io.lakeward.spark.scan.ScalaSequences;
import io.lakeward.spark.service.ServiceClient;
import io.lakeward.spark.service.TablePaths;
import java.io.IOException;
import java.util.Base64;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/**
 * Writes rows of one table. The service opens the statement, and Python tasks on executors write
 * its rows, each task in numbered batches. Rows never pass through the driver.
 */
public final class RowWriter {

  private final ServiceClient service;
  private final String user;
  private final PbTablePath path;
  private final String table;
  private final boolean isOfStatement;

  /**
   * @param user for whom the table was loaded
   * @param fullName of the table, with the catalog
   * @param isOfStatement whether the statement created the table, and Spark drops it on an error
   */
  public RowWriter(
      ServiceClient service,
      String user,
      String database,
      String table,
      String fullName,
      boolean isOfStatement) {
    this.service = service;
    this.user = user;
    this.path = TablePaths.of(database, table);
    this.table = fullName;
    this.isOfStatement = isOfStatement;
  }

  /** The write of an INSERT. Spark has made the columns of its rows those of the table. */
  public WriteBuilder insert() {
    return new WriteBuilder() {
      @Override
      public Write build() {
        return new Insert();
      }
    };
  }

  private final class Insert implements V1Write {
    @Override
    public InsertableRelation toInsertableRelation() {
      return (rows, overwrite) ->
          LakewardException.unchecked(
              () -> write(WriteOperation.INSERT, ((Dataset<?>) rows).logicalPlan()));
    }

    /** The text in plans. */
    @Override
    public String description() {
      return "LakewardWrite(%s)".formatted(TablePaths.text(path));
    }
  }

  /**
   * Throws LakewardException unless the conditions of a DELETE name keys.
   *
   * @param key the key columns of the table
   */
  public void checkDelete(StructType key, Predicate[] conditions) throws LakewardException {
    KeyRows.of(table, key, conditions);
  }

  /** Deletes the rows whose keys the conditions name. Keys without a row are ignored. */
  public void delete(StructType key, Predicate[] conditions) throws LakewardException {
    List<InternalRow> keys = KeyRows.of(table, key, conditions);
    if (!keys.isEmpty()) {
      write(
          WriteOperation.DELETE,
          new LocalRelation(
              ScalaSequences.cast(DataTypeUtils.toAttributes(key)),
              ScalaSequences.of(keys),
              false,
              Option.empty()));
    }
  }

  /** Executes the statement; returns the number of its rows. */
  private long write(WriteOperation operation, LogicalPlan rows) throws LakewardException {
    OpenWriteResponse opened =
        service.openWrite(
            user,
            OpenWriteRequest.newBuilder()
                .setTablePath(path)
                .setOperation(operation)
                .setStatementId(StatementIds.next())
                .build());
    LogicalPlan repeatable = opened.getRemembersWriters() ? RepeatableRows.of(rows) : rows;
    try {
      return PythonRunner.write(service.python(), work(opened), repeatable);
    } catch (IOException error) {
      throw WriteErrors.withoutPython(table, "the driver has no such Python as executors need", error);
    } catch (Exception error) { // Scala declares no checked exceptions
      throw isOfStatement
          ? WriteErrors.ofNewTable(table, error)
          : WriteErrors.translated(
              table, error, () -> service.countWritten(user, opened.getTicket()));
    }
  }

  private String work(OpenWriteResponse opened) throws LakewardException {
    ByteString work =
        ExecutorWrite.newBuilder()
            .setTask(opened.getTask())
            .setUri(service.target())
            .setTlsCa(service.trustedAuthorities())
            .build()
            .toByteString();
    return Base64.getEncoder().encodeToString(work.toByteArray());
  }
}
