package io.lakeward.spark;

import io.lakeward.spark.LakewardException.Missing;
import io.lakeward.sys.rpc.v1.ReadTableRequest;
import io.lakeward.sys.rpc.v1.SystemTable;
import java.util.Arrays;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableSummary;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A Lakeward service as a Spark catalog: {@code
 * spark.sql.catalog.<name>=io.lakeward.spark.LakewardCatalog} and {@code
 * spark.sql.catalog.<name>.uri=host:port}. It shows the databases and tables of the streaming store
 * beside the system tables and procedures, and knows none of them by name: the service says what
 * there is. Thread-safe.
 */
public final class LakewardCatalog implements ReadOnlyCatalog, ProcedureCatalog {

  private String name;
  private ServiceClient service;
  private Directory directory;
  private DataTables dataTables;
  private volatile Made made = new Made("", new ConcurrentHashMap<>());

  /** System tables, made of the description with that token. */
  private record Made(String token, ConcurrentMap<Identifier, Table> tables) {}

  /** Spark makes catalogs by reflection. */
  public LakewardCatalog() {}

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    try {
      start(name, options);
    } catch (LakewardException error) {
      throw error.unchecked();
    }
  }

  /** The same; throws LakewardException for a wrong option. Does not connect. */
  void start(String name, CaseInsensitiveStringMap options) throws LakewardException {
    this.name = name;
    CatalogOptions parsed = CatalogOptions.parse(name, options);
    this.service = new ServiceClient(name, parsed);
    LakeCatalog lake = new LakeCatalog(name, parsed.lake(), SparkSession.active());
    this.dataTables = new DataTables(name, service, lake);
    this.directory = new Directory(name, new DescriptionCache(service::describe, System::nanoTime));
  }

  @Override
  public String name() {
    return name;
  }

  /** As plans and error messages of Spark show it. */
  @Override
  public String toString() {
    return name + " (Lakeward at " + service.target() + ")";
  }

  @Override
  public String[][] listNamespaces() {
    return answer(
        () ->
            directory.namespaces().stream()
                .map(one -> new String[] {one})
                .toArray(String[][]::new));
  }

  @Override
  public String[][] listNamespaces(String[] namespace) {
    return answer(
        () -> {
          if (namespace.length > 0) {
            directory.namespace(namespace);
          }
          return namespace.length == 0 ? listNamespaces() : new String[0][];
        });
  }

  @Override
  public boolean namespaceExists(String[] namespace) {
    return answer(() -> directory.findNamespace(namespace).isPresent());
  }

  /**
   * Of an unknown namespace it throws what Spark expects, by which it tells whether there is one.
   */
  @Override
  public Map<String, String> loadNamespaceMetadata(String[] namespace)
      throws NoSuchNamespaceException {
    Optional<String> found = answer(() -> directory.findNamespace(namespace));
    if (found.isEmpty()) {
      throw new NoSuchNamespaceException(namespace);
    }
    boolean system = answer(() -> directory.isSystem(found.get()));
    return Map.of(
        SupportsNamespaces.PROP_COMMENT,
        system ? "System tables and procedures." : "A database of the streaming store.");
  }

  @Override
  public Identifier[] listTables(String[] namespace) {
    return answer(
        () -> {
          String database = directory.namespace(namespace);
          return service.listTables(database).stream()
              .map(table -> Identifier.of(new String[] {database}, table))
              .toArray(Identifier[]::new);
        });
  }

  @Override
  public TableSummary[] listTableSummaries(String[] namespace) {
    return Arrays.stream(listTables(namespace))
        .map(table -> TableSummary.of(table, TableSummary.FOREIGN_TABLE_TYPE))
        .toArray(TableSummary[]::new);
  }

  @Override
  public Table loadTable(Identifier ident) {
    return answer(
        () -> {
          String namespace = tableNamespace(ident);
          return directory.isSystem(namespace)
              ? virtualTable(directory.table(namespace, ident.name()))
              : dataTables.now(namespace, ident.name());
        });
  }

  @Override
  public Table loadTable(Identifier ident, String version) {
    return past(ident, (catalog, table) -> catalog.loadTable(table, version));
  }

  /** {@code timestamp}: microseconds since the epoch. */
  @Override
  public Table loadTable(Identifier ident, long timestamp) {
    return past(ident, (catalog, table) -> catalog.loadTable(table, timestamp));
  }

  /** Asks only whether the service has it, not whether it can be read. */
  @Override
  public boolean tableExists(Identifier ident) {
    return answer(
        () -> {
          try {
            String namespace = tableNamespace(ident);
            if (directory.isSystem(namespace)) {
              directory.table(namespace, ident.name());
            } else {
              service.describeTable(namespace, ident.name());
            }
            return true;
          } catch (LakewardException error) {
            if (error.isUnknown()) {
              return false;
            }
            throw error;
          }
        });
  }

  @Override
  public Identifier[] listProcedures(String[] namespace) {
    return answer(
        () -> {
          String database = directory.namespace(namespace);
          return directory.procedures(database).stream()
              .map(procedure -> Identifier.of(new String[] {database}, procedure))
              .toArray(Identifier[]::new);
        });
  }

  @Override
  public UnboundProcedure loadProcedure(Identifier ident) {
    return answer(
        () -> {
          String namespace = directory.namespace(ident.namespace());
          return new ServiceProcedure(name, directory.procedure(namespace, ident.name()), service);
        });
  }

  @Override
  public boolean isSystem(String[] namespace) {
    return answer(
        () -> {
          Optional<String> found = directory.findNamespace(namespace);
          return found.isPresent() && directory.isSystem(found.get());
        });
  }

  private Table past(Identifier ident, LakeCatalog.Look look) {
    return answer(
        () -> {
          String namespace = tableNamespace(ident);
          if (directory.isSystem(namespace)) {
            throw new LakewardException(
                "the system table %s.%s.%s shows the present: read it without AS OF"
                    .formatted(name, namespace, ident.name()));
          }
          return dataTables.past(namespace, ident.name(), look);
        });
  }

  private String tableNamespace(Identifier ident) throws LakewardException {
    return directory.namespace(ident.namespace(), Missing.TABLE_OR_VIEW_NOT_FOUND);
  }

  /**
   * The same one as before while the service says the same: Spark asks for it in every statement.
   */
  private Table virtualTable(Directory.Found found) throws LakewardException {
    // Now, while Spark analyses: when it optimises, it has its rules together already.
    SessionRules.install();
    Made known = made;
    if (!known.token().equals(found.token())) {
      known = new Made(found.token(), new ConcurrentHashMap<>());
      made = known;
    }
    Identifier key =
        Identifier.of(new String[] {found.table().getNamespace()}, found.table().getName());
    Table table = known.tables().get(key);
    if (table == null) {
      table = newTable(found);
      known.tables().put(key, table);
    }
    return table;
  }

  private Table newTable(Directory.Found found) throws LakewardException {
    SystemTable table = found.table();
    String fullName = String.join(".", name, table.getNamespace(), table.getName());
    ReadTableRequest request =
        ReadTableRequest.newBuilder()
            .setNamespace(table.getNamespace())
            .setName(table.getName())
            .setToken(found.token())
            .setNullColumns(true)
            .build();
    StructType schema = ArrowRows.schema(fullName, table.getSchema().toByteArray());
    return new VirtualTable(
        fullName, table.getComment(), schema, this::rows, request, found.capabilities());
  }

  private RowSource.Reading rows(ReadTableRequest request, StructType schema) {
    RowSource.Reading reading = service.readTable(request, schema);
    return () -> {
      try {
        return reading.rows();
      } catch (LakewardException error) {
        // The advice may be to run the statement again: then with what the service has now.
        directory.forget();
        throw error;
      }
    };
  }

  /** What may go wrong for the user. */
  @FunctionalInterface
  private interface Question<T> {
    T ask() throws LakewardException;
  }

  private static <T> T answer(Question<T> question) {
    try {
      return question.ask();
    } catch (LakewardException error) {
      throw error.unchecked();
    }
  }
}
