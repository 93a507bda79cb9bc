package io.lakeward.spark;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A table of the store: described here, read through the lake's own catalog. */
final class DataTable extends ReadOnlyTable {

  private final Map<String, String> properties;

  DataTable(String name, String comment, StructType schema, Map<String, String> properties) {
    super(name, comment, schema);
    this.properties = properties;
  }

  @Override
  public Map<String, String> properties() {
    Map<String, String> all = new HashMap<>(properties);
    all.putAll(super.properties());
    return all;
  }

  /** A scan that can be planned, as DESCRIBE does, but has no rows. */
  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return () -> new LakeScan(name(), schema());
  }

  @Override
  String whyReadOnly() {
    return ReadOnlyCatalog.STORE_IS_READ_ONLY;
  }

  private record LakeScan(String table, StructType readSchema) implements LocalScan {
    @Override
    public InternalRow[] rows() {
      throw new LakewardException(
              "the rows of "
                  + table
                  + " are in the lake: read its copy there through the lake's own catalog;"
                  + " `lakeward lake-conf` tells how to open it")
          .unchecked();
    }
  }
}
