package io.lakeward.spark.fresh;

import static io.lakeward.spark.error.LakewardException.unchecked;

import java.util.Map;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** A scan of lake and log that reads only the columns which a statement uses. */
public final class FreshScanBuilder implements ScanBuilder, SupportsPushDownRequiredColumns {

  private final Map<String, String> options;
  private StructType schema;

  /**
   * @param schema all columns of the table
   * @param path the table, as {@code database.table}
   * @param uri of the service
   */
  public FreshScanBuilder(StructType schema, String path, String uri) {
    this.schema = schema;
    this.options = Map.of("table", path, "uri", uri);
  }

  /** A scan has at least one column, because Python sends the number of rows only with a column. */
  @Override
  public void pruneColumns(StructType required) {
    if (required.length() > 0) {
      schema = required;
    } else {
      schema = new StructType(new StructField[] {schema.fields()[0]});
    }
  }

  @Override
  public Scan build() {
    return unchecked(() -> PythonSource.scan(schema, options));
  }
}
