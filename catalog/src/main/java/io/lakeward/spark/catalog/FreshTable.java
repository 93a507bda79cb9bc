package io.lakeward.spark.catalog;

import io.lakeward.spark.fresh.FreshScanBuilder;
import io.lakeward.spark.fresh.FreshSource;
import io.lakeward.sys.rpc.v1.DescribeTableResponse;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.function.Supplier;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A table of the store with all rows up to now: its rows, or the changes in its log. All scans of
 * an object read the same moment. Spark loads a new object for each statement that it executes, and
 * puts it into the plan if it does not equal the former one, so two objects are never equal. Spark
 * finds a table of CACHE TABLE by name and id.
 */
class FreshTable extends ServiceTable implements PartitionedTable {

  /** Property of the service with the id of the table, which a table of the same name never has. */
  private static final String TABLE_ID = "table-id";

  /** The provider of the rows, as Spark shows it. */
  static final String PROVIDER = "lakeward";

  private final DescribeTableResponse described;
  private final TableDefinition definition;
  private final String user;
  private final Supplier<Map<String, String>> lakeProperties;
  private final FreshSource source;
  private final String version = UUID.randomUUID().toString();

  /**
   * @param definition what creates the table again
   * @param user for whom the table is loaded
   * @param lakeProperties opens the lake copy to tell its properties
   */
  FreshTable(
      TableDefinition definition,
      StructType schema,
      String user,
      Supplier<Map<String, String>> lakeProperties,
      FreshSource source) {
    super(definition.name(), definition.described().getComment(), schema);
    this.definition = definition;
    this.described = definition.described();
    this.user = user;
    this.lakeProperties = lakeProperties;
    this.source = source;
  }

  /** Spark calls this to describe the table, not to read it. */
  @Override
  public Map<String, String> properties() {
    return definition.properties(this::shownProperties);
  }

  private Map<String, String> shownProperties() {
    Map<String, String> all = new HashMap<>(described.getPropertiesMap());
    all.putAll(lakeProperties.get());
    all.putAll(super.properties());
    all.put(TableCatalog.PROP_PROVIDER, PROVIDER);
    all.values().removeIf(String::isEmpty);
    return all;
  }

  @Override
  public Column[] columns() {
    return definition.columns(super.columns());
  }

  @Override
  public TableDefinition definition() {
    return definition;
  }

  boolean hasPrimaryKey() {
    return described.getPrimaryKeyCount() > 0;
  }

  /** The key columns, in the order of the key; none for a log table. */
  StructType key() {
    return new StructType(
        described.getPrimaryKeyList().stream()
            .map(name -> schema().apply(name))
            .toArray(StructField[]::new));
  }

  /** The id in the store and the user, so that no user gets rows that another one has cached. */
  @Override
  public String id() {
    String id = described.getPropertiesOrThrow(TABLE_ID);
    return user.isEmpty() ? id : id + "/" + user;
  }

  /** A table can be read as a stream, too. */
  @Override
  public Set<TableCapability> capabilities() {
    return Set.of(TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ);
  }

  /** Each loaded table is a version of its own, so Spark loads a new one for each execution. */
  @Override
  public String version() {
    return version;
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new FreshScanBuilder(source, schema(), options);
  }

  @Override
  String whyNotTruncated() {
    return hasPrimaryKey()
        ? "rows are removed by their keys alone, with DELETE FROM ... WHERE"
        : "rows of a log table are never removed; the option table.log.ttl or DROP TABLE removes them";
  }
}
