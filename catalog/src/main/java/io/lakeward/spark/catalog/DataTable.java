package io.lakeward.spark.catalog;

import io.lakeward.spark.error.LakewardException;
import io.lakeward.sys.rpc.v1.DescribeTableResponse;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A table of the store: the service describes it, and its copy in the lake has the rows. A table
 * without a readable copy is described, too; a query of its rows is an error with the reason.
 */
final class DataTable extends ServiceTable
    implements SupportsMetadataColumns, PartitionedTable {

  /** Property with the name of the lake's table. */
  private static final String LAKE_TABLE = "lake.table";

  /** Property of the service with the format of the lake copy. */
  private static final String LAKE_FORMAT = "lake.format";

  /** Why the rows of a table of a listing cannot be read. */
  private static final String LISTED = "it was loaded for a listing of tables. Load it again";

  /** Property with the reason why the rows cannot be read. */
  private static final String LAKE_UNREADABLE = "lake.unreadable";

  /** Property that lists the columns which are not in the lake yet. */
  private static final String LAKE_LACKS = "lake.missing-columns";

  private final TableDefinition definition;
  private final StructType source;
  private final Optional<LakeCopy> copy;
  private final String unreadable;
  private final Map<String, String> lakeProperties;

  private DataTable(
      TableDefinition definition,
      StructType schema,
      StructType source,
      Optional<LakeCopy> copy,
      String unreadable,
      Map<String, String> lakeProperties) {
    super(definition.name(), definition.described().getComment(), schema);
    this.definition = definition;
    this.source = source;
    this.copy = copy;
    this.unreadable = unreadable;
    this.lakeProperties = lakeProperties;
  }

  /** A table whose rows are read from {@code copy}; {@code source} are the columns described. */
  static DataTable readable(TableDefinition definition, StructType source, LakeCopy copy) {
    Map<String, String> lake = copy.table().properties();
    Map<String, String> properties =
        Map.of(
            LAKE_TABLE, copy.table().name(),
            LAKE_LACKS, copy.missing(source),
            TableCatalog.PROP_LOCATION, lake.getOrDefault(TableCatalog.PROP_LOCATION, ""),
            TableCatalog.PROP_PROVIDER, lake.getOrDefault(TableCatalog.PROP_PROVIDER, ""));
    return new DataTable(
        definition, copy.schema(source), source, Optional.of(copy), "", properties);
  }

  /** A table without readable rows; {@code why} is the error for a query of them. */
  static DataTable unreadable(TableDefinition definition, StructType source, String why) {
    Map<String, String> properties = Map.of(LAKE_UNREADABLE, why);
    return new DataTable(definition, source, source, Optional.empty(), why, properties);
  }

  /**
   * A table of a listing, whose copy {@code lakeTable} was not opened; empty if it has none. {@code
   * fresh}: its name means the rows of the log, too.
   */
  static DataTable listed(
      TableDefinition definition, StructType source, String lakeTable, boolean fresh) {
    DescribeTableResponse described = definition.described();
    String lakeFormat =
        lakeTable.isEmpty() ? "" : described.getPropertiesOrDefault(LAKE_FORMAT, "");
    String format = fresh ? FreshTable.PROVIDER : lakeFormat;
    Map<String, String> properties =
        Map.of(LAKE_TABLE, lakeTable, TableCatalog.PROP_PROVIDER, format);
    return new DataTable(definition, source, source, Optional.empty(), LISTED, properties);
  }

  @Override
  public Map<String, String> properties() {
    return definition.properties(this::shownProperties);
  }

  private Map<String, String> shownProperties() {
    Map<String, String> all = new HashMap<>(definition.described().getPropertiesMap());
    all.putAll(lakeProperties);
    all.putAll(super.properties());
    all.values().removeIf(String::isEmpty);
    return all;
  }

  /** The properties about the lake copy: its table and place, or why it cannot be read. */
  Map<String, String> lakeProperties() {
    return lakeProperties;
  }

  @Override
  public Column[] columns() {
    return definition.columns(super.columns());
  }

  @Override
  public TableDefinition definition() {
    return definition;
  }

  /**
   * The id of the lake table, by which Spark tells whether the table it planned with is still the
   * same. Spark calls this only when it is about to read.
   */
  @Override
  public String id() {
    return LakewardException.unchecked(() -> VersionedTable.id(checkReadable().copy.get().table()));
  }

  /** This table; throws LakewardException if its rows cannot be read. */
  DataTable checkReadable() throws LakewardException {
    if (copy.isEmpty()) {
      throw cannotRead(name(), unreadable);
    }
    return this;
  }

  /** The version of the lake table, by which Spark tells whether an earlier plan is up to date. */
  @Override
  public String version() {
    return copy.map(lakeCopy -> VersionedTable.version(lakeCopy.table())).orElse(null);
  }

  @Override
  public MetadataColumn[] metadataColumns() {
    return copy.map(lakeCopy -> lakeCopy.metadataColumns(source))
        .orElseGet(() -> new MetadataColumn[0]);
  }

  /** A scan of the lake. Without a copy, DESCRIBE can plan the scan, and reading it is an error. */
  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return copy.isPresent()
        ? copy.get().table().newScanBuilder(options)
        : () -> new NoScan(name(), schema(), unreadable);
  }

  @Override
  String whyNotTruncated() {
    return "this name is for reading only";
  }

  /** Whether this is the same table with the same lake copy, by which CACHE TABLE finds it. */
  @Override
  public boolean equals(Object other) {
    return other instanceof DataTable table
        && name().equals(table.name())
        && schema().equals(table.schema())
        && copy.equals(table.copy);
  }

  @Override
  public int hashCode() {
    return name().hashCode();
  }

  private record NoScan(String table, StructType readSchema, String why) implements LocalScan {
    @Override
    public InternalRow[] rows() {
      throw cannotRead(table, why).unchecked();
    }
  }

  /** The error for a query of rows that cannot be read. */
  private static LakewardException cannotRead(String table, String why) {
    return new LakewardException("cannot read " + table + ": " + why);
  }
}
