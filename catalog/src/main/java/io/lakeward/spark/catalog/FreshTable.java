package io.lakeward.spark.catalog;

import io.lakeward.spark.fresh.FreshScanBuilder;
import io.lakeward.sys.rpc.v1.DescribeTableResponse;
import java.util.HashMap;
import java.util.Map;
import java.util.UUID;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A table of the store with all of its rows up to now: those of its lake copy and of the log. */
final class FreshTable extends ReadOnlyTable {

  /** Property of the service with the id of the table, which a table of the same name never has. */
  private static final String TABLE_ID = "table-id";

  private final DescribeTableResponse described;
  private final String path;
  private final String uri;
  private final String version = UUID.randomUUID().toString();

  /**
   * @param name with catalog and namespace
   * @param path {@code database.table}
   * @param uri of the service
   */
  FreshTable(
      String name, DescribeTableResponse described, StructType source, String path, String uri) {
    super(name, described.getComment(), source);
    this.described = described;
    this.path = path;
    this.uri = uri;
  }

  @Override
  public Map<String, String> properties() {
    Map<String, String> all = new HashMap<>(described.getPropertiesMap());
    all.putAll(super.properties());
    all.put(TableCatalog.PROP_PROVIDER, "lakeward");
    all.values().removeIf(String::isEmpty);
    return all;
  }

  /** The partition columns of the store: each value of them is a partition. */
  @Override
  public Transform[] partitioning() {
    return described.getPartitionKeysList().stream()
        .map(Expressions::identity)
        .toArray(Transform[]::new);
  }

  @Override
  public String id() {
    return described.getPropertiesOrThrow(TABLE_ID);
  }

  /** Each loaded table is a version of its own: the rows of one moment. */
  @Override
  public String version() {
    return version;
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new FreshScanBuilder(schema(), path, uri);
  }

  @Override
  String whyReadOnly() {
    return ReadOnlyCatalog.STORE_IS_READ_ONLY;
  }
}
