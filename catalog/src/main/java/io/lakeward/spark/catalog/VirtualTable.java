package io.lakeward.spark.catalog;

import io.lakeward.spark.scan.RowSource;
import io.lakeward.spark.scan.SystemScanBuilder;
import io.lakeward.sys.rpc.v1.ReadTableRequest;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A system table. The service computes its rows for each read. */
final class VirtualTable extends ServiceTable {

  private final RowSource source;
  private final ReadTableRequest request;

  /** {@code request} names the table and has the token of the description with {@code schema}. */
  VirtualTable(
      String name, String comment, StructType schema, RowSource source, ReadTableRequest request) {
    super(name, comment, schema);
    this.source = source;
    this.request = request;
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new SystemScanBuilder(source, request, schema());
  }

  @Override
  String whyNotTruncated() {
    return DefinedCatalog.SYSTEM_TABLES_ARE_READ_ONLY;
  }
}
