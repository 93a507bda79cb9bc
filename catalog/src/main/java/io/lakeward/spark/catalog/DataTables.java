package io.lakeward.spark.catalog;

import io.lakeward.rpc.v1.ReadScan.Part;
import io.lakeward.spark.define.Definitions;
import io.lakeward.spark.define.Partitions;
import io.lakeward.spark.error.LakewardException;
import io.lakeward.spark.fresh.FreshSource;
import io.lakeward.spark.fresh.UnionRule;
import io.lakeward.spark.scan.SessionRules;
import io.lakeward.spark.service.ArrowRows;
import io.lakeward.spark.service.CatalogOptions;
import io.lakeward.spark.service.CatalogOptions.PlainName;
import io.lakeward.spark.service.ServiceClient;
import io.lakeward.spark.write.RowWriter;
import io.lakeward.sys.rpc.v1.DescribeTableResponse;
import java.lang.ref.SoftReference;
import java.util.Collection;
import java.util.Map;
import java.util.Optional;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.types.StructType;

/**
 * The data tables of a catalog: the service describes them, the lake's own catalog has the rows.
 * For a listing the service describes all tables at once, and no lake table is opened. Thread-safe.
 */
final class DataTables {

  private final String catalog;
  private final ServiceClient service;
  private final Definitions definitions;
  private final LakeCatalog lake;
  private final CatalogOptions options;

  /** The listing of each thread. Spark lists the names and loads the tables in one thread. */
  private final ThreadLocal<SoftReference<Listing>> listings = new ThreadLocal<>();

  private record Listing(
      String user, String namespace, Map<String, DescribeTableResponse> tables) {}

  /** {@code catalog}: its name; {@code options}: its options. */
  DataTables(
      String catalog,
      ServiceClient service,
      Definitions definitions,
      LakeCatalog lake,
      CatalogOptions options) {
    this.options = options;
    this.catalog = catalog;
    this.service = service;
    this.definitions = definitions;
    this.lake = lake;
  }

  /** The names of all tables of a namespace, which is written as it is spelled. */
  Collection<String> names(String user, String namespace) throws LakewardException {
    if (!ListingCallers.areOnTheStack()) {
      return service.listTables(user, namespace);
    }
    Map<String, DescribeTableResponse> tables = service.describeTables(user, namespace);
    listings.set(new SoftReference<>(new Listing(user, namespace, tables)));
    return tables.keySet();
  }

  /**
   * The table, only described if a listing loads it. For any other statement it has the newest
   * version of its lake copy. An unknown table is the error TABLE_OR_VIEW_NOT_FOUND. {@code
   * namespace} is written as it is spelled.
   */
  Table load(String user, String namespace, String name) throws LakewardException {
    Optional<DescribeTableResponse> described = listed(user, namespace, name);
    if (described.isEmpty()) {
      return current(user, namespace, TableName.of(name));
    }
    return listedTable(namespace, described.get());
  }

  /** All tables of a namespace by their names, only described, as a page of each thousand. */
  SortedMap<String, Table> described(String user, String namespace) throws LakewardException {
    SortedMap<String, Table> tables = new TreeMap<>();
    for (DescribeTableResponse table : service.describeTables(user, namespace).values()) {
      tables.put(table.getName(), listedTable(namespace, table));
    }
    return tables;
  }

  private Table listedTable(String namespace, DescribeTableResponse described)
      throws LakewardException {
    String fullName = fullName(namespace, described);
    StructType source = source(fullName, described);
    return DataTable.listed(
        definition(fullName, namespace, described, source),
        source,
        lake.tableName(described.getLakePathList()),
        options.plainName() == PlainName.FRESH);
  }

  private Optional<DescribeTableResponse> listed(String user, String namespace, String name) {
    SoftReference<Listing> kept = listings.get();
    Listing listing = kept == null ? null : kept.get();
    if (listing == null || !ListingCallers.areOnTheStack()) {
      listings.remove();
      return Optional.empty();
    }
    return listing.user().equals(user) && listing.namespace().equals(namespace)
        ? Optional.ofNullable(listing.tables().get(name))
        : Optional.empty();
  }

  private Table current(String user, String namespace, TableName name) throws LakewardException {
    return switch (name.rows()) {
      case LAKE -> open(user, namespace, name, LakeCatalog.NEWEST);
      case CHANGELOG -> fresh(user, namespace, name, Part.CHANGELOG);
      case PLAIN ->
          options.plainName() == PlainName.FRESH
              ? fresh(user, namespace, name, Part.ROWS)
              : open(user, namespace, name, LakeCatalog.NEWEST);
    };
  }

  private FreshTable fresh(String user, String namespace, TableName name, Part part)
      throws LakewardException {
    SessionRules.install();
    SessionRules.install(new UnionRule());
    DescribeTableResponse described = service.describeTable(user, namespace, name.table());
    String fullName = fullName(namespace, described) + name.suffix();
    StructType schema = source(fullName, described);
    TableDefinition definition = definition(fullName, namespace, described, schema);
    return new FreshTable(
        definition,
        // A row that a foreign writer put into the lake may have a NULL in any column.
        (part == Part.CHANGELOG ? Changelog.schema(schema) : schema).asNullable(),
        user,
        () -> open(definition, schema, LakeCatalog.NEWEST).lakeProperties(),
        freshSource(user, namespace, described, part));
  }

  /** The table for a statement that writes its rows; an unknown one is TABLE_OR_VIEW_NOT_FOUND. */
  WritableTable writable(String user, String namespace, String name) throws LakewardException {
    TableName parsed = TableName.of(name);
    DescribeTableResponse described = service.describeTable(user, namespace, parsed.table());
    String fullName = fullName(namespace, described);
    if (parsed.rows() != TableName.Rows.PLAIN) {
      throw new LakewardException(
          "cannot write to %s%s: this name is for reading only. Write to %s"
              .formatted(fullName, parsed.suffix(), fullName));
    }
    StructType schema = source(fullName, described);
    TableDefinition definition = definition(fullName, namespace, described, schema);
    return new WritableTable(
        definition,
        schema,
        user,
        () -> open(definition, schema, LakeCatalog.NEWEST).lakeProperties(),
        freshSource(user, namespace, described, Part.ROWS),
        new RowWriter(
            service,
            user,
            namespace,
            described.getName(),
            fullName,
            DefinitionCallers.createTableAsSelect()));
  }

  private FreshSource freshSource(
      String user, String namespace, DescribeTableResponse described, Part part) {
    return new FreshSource(
        service,
        user,
        namespace,
        described.getName(),
        part,
        snapshot -> lakeSnapshot(described, snapshot));
  }

  /** The lake copy at a snapshot; empty if this Spark has no catalog for the lake. */
  private Optional<SupportsRead> lakeSnapshot(DescribeTableResponse described, long snapshot)
      throws LakewardException {
    if (options.lake().isEmpty()) {
      return Optional.empty();
    }
    String version = String.valueOf(snapshot);
    return lake.find(
        described.getLakePathList(),
        (catalog, ident) -> catalog.loadTable(ident, version),
        described.getLakeHistory());
  }

  /** The table with that version of its lake copy; throws LakewardException if it is unreadable. */
  Table past(String user, String namespace, String name, LakeCatalog.Version version)
      throws LakewardException {
    TableName parsed = TableName.of(name);
    if (parsed.rows() == TableName.Rows.CHANGELOG) {
      throw new LakewardException(
          "%s.%s.%s has the records of the log, which has no versions: read it without AS OF"
              .formatted(catalog, namespace, name));
    }
    return open(user, namespace, parsed, version).checkReadable();
  }

  /** The table with that version of its lake copy; only described if the copy is unreadable. */
  private DataTable open(
      String user, String namespace, TableName name, LakeCatalog.Version version)
      throws LakewardException {
    DescribeTableResponse described = service.describeTable(user, namespace, name.table());
    String fullName = fullName(namespace, described) + name.suffix();
    StructType source = source(fullName, described);
    return open(definition(fullName, namespace, described, source), source, version);
  }

  private TableDefinition definition(
      String fullName, String namespace, DescribeTableResponse described, StructType source) {
    StructType keys = Partitions.schema(source, described.getPartitionKeysList());
    Partitions partitions = new Partitions(definitions, namespace, described.getName(), keys);
    return new TableDefinition(fullName, described, partitions);
  }

  private DataTable open(
      TableDefinition definition, StructType source, LakeCatalog.Version version) {
    DescribeTableResponse described = definition.described();
    String reason = described.getNotInLake();
    try {
      Optional<LakeCopy> copy = copy(described, version);
      if (copy.isPresent()) {
        return DataTable.readable(definition, source, copy.get());
      }
    } catch (LakewardException unreadable) {
      reason = unreadable.getMessage();
    }
    return DataTable.unreadable(definition, source, reason);
  }

  private Optional<LakeCopy> copy(DescribeTableResponse described, LakeCatalog.Version version)
      throws LakewardException {
    return described.getLakePathCount() == 0
        ? Optional.empty()
        : lake.find(described.getLakePathList(), version, described.getLakeHistory())
            .map(LakeCopy::new);
  }

  private String fullName(String namespace, DescribeTableResponse described) {
    return String.join(".", catalog, namespace, described.getName());
  }

  private static StructType source(String fullName, DescribeTableResponse described)
      throws LakewardException {
    return ArrowRows.schema(fullName, described.getSchema().toByteArray());
  }
}
