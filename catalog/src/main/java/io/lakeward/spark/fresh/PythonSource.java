package io.lakeward.spark.fresh;

import io.lakeward.spark.error.LakewardException;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.datasources.DataSource$;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;

/**
 * Lakeward's data source in Python as a scan. All that the plugin uses of Spark's internal classes
 * for Python data sources is in this file.
 */
final class PythonSource {

  /** The data source that {@code pyspark_lakeward} brings, by which Spark finds it. */
  private static final String NAME = "lakeward";

  private PythonSource() {}

  /**
   * A scan of the columns {@code schema}. Spark plans it in a Python process of the driver when it
   * makes the tasks. Throws LakewardException if Spark's Python does not have the data source.
   */
  static Scan scan(StructType schema, Map<String, String> options) throws LakewardException {
    Table table = provider().getTable(schema, new Transform[0], options);
    return ((SupportsRead) table).newScanBuilder(new CaseInsensitiveStringMap(options)).build();
  }

  private static TableProvider provider() throws LakewardException {
    Option<TableProvider> provider;
    try {
      provider =
          DataSource$.MODULE$.lookupDataSourceV2(
              NAME, org.apache.spark.sql.classic.SparkSession.active().sessionState().conf());
    } catch (Exception error) { // Scala declares no checked exceptions
      throw missing(error);
    }
    if (provider.isEmpty() || !(provider.get() instanceof PythonDataSourceV2)) {
      throw missing(null);
    }
    return provider.get();
  }

  private static LakewardException missing(Exception cause) {
    String message =
        "Spark's Python does not have the data source '"
            + NAME
            + "', which reads the log. Install the package lakeward there, or let PYSPARK_PYTHON"
            + " name a Python that has it";
    return cause == null
        ? new LakewardException(message)
        : new LakewardException(message, cause);
  }
}
