package io.lakeward.spark.write;

import io.lakeward.spark.error.LakewardException;
import io.lakeward.spark.service.ServiceClient;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;

/**
 * Refuses writes of rows, before the service opens a statement: Spark 3.5 cannot run the tasks that
 * write.
 */
public final class RowWriter {

  private final String table;

  /** Has the parameters of the writer for Spark 4. */
  public RowWriter(
      ServiceClient service,
      String user,
      String database,
      String table,
      String fullName,
      boolean isOfStatement) {
    this.table = fullName;
  }

  /** Throws LakewardException. */
  public WriteBuilder insert() {
    throw refusal().unchecked();
  }

  /** Throws LakewardException. */
  public void checkDelete(StructType key, Predicate[] conditions) throws LakewardException {
    throw refusal();
  }

  /** Throws LakewardException. */
  public void delete(StructType key, Predicate[] conditions) throws LakewardException {
    throw refusal();
  }

  private LakewardException refusal() {
    return new LakewardException(
        "cannot write rows of %s with Spark 3.5: use Spark 4.0 or newer, or a client of Fluss"
            .formatted(table));
  }
}
