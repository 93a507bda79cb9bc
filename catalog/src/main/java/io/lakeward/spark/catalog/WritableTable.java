package io.lakeward.spark.catalog;

import io.lakeward.spark.error.LakewardException;
import io.lakeward.spark.fresh.FreshSource;
import io.lakeward.spark.write.RowWriter;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.spark.sql.connector.catalog.SupportsDeleteV2;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;

/** A table of the store for a statement that writes its rows, with NOT NULL columns as declared. */
final class WritableTable extends FreshTable implements SupportsWrite, SupportsDeleteV2 {

  private final RowWriter writer;

  WritableTable(
      TableDefinition definition,
      StructType schema,
      String user,
      Supplier<Map<String, String>> lakeProperties,
      FreshSource source,
      RowWriter writer) {
    super(definition, schema, user, lakeProperties, source);
    this.writer = writer;
  }

  /** Throws LakewardException for a statement that does more than append, upsert or delete. */
  void check(Set<TableWritePrivilege> privileges) throws LakewardException {
    if (privileges.contains(TableWritePrivilege.UPDATE)) {
      throw refusal("update rows of", "rows are not changed in place");
    }
    if (privileges.containsAll(Set.of(TableWritePrivilege.INSERT, TableWritePrivilege.DELETE))) {
      throw refusal("overwrite rows of", "the log of the table keeps what it has");
    }
  }

  private LakewardException refusal(String action, String why) {
    String help =
        hasPrimaryKey()
            ? "INSERT INTO replaces the row of each key, and DELETE FROM ... WHERE with the key"
                + " removes it"
            : "INSERT INTO appends rows, and rows of a log table are never changed or removed";
    return new LakewardException("cannot %s %s: %s. %s".formatted(action, name(), why, help));
  }

  @Override
  public Set<TableCapability> capabilities() {
    return Set.of(TableCapability.BATCH_READ, TableCapability.V1_BATCH_WRITE);
  }

  /** None, so that Spark does not compare this table with the one that it loads for reading. */
  @Override
  public String version() {
    return null;
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return writer.insert();
  }

  /** True; throws LakewardException with the reason if the conditions name no keys. */
  @Override
  public boolean canDeleteWhere(Predicate[] conditions) {
    return LakewardException.unchecked(
        () -> {
          if (!hasPrimaryKey()) {
            throw refusal("delete rows of", "it has no primary key");
          }
          writer.checkDelete(key(), conditions);
          return true;
        });
  }

  @Override
  public void deleteWhere(Predicate[] conditions) {
    LakewardException.unchecked(
        () -> {
          writer.delete(key(), conditions);
          return null;
        });
  }
}
