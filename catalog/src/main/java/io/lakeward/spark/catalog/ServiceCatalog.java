package io.lakeward.spark.catalog;

import static io.lakeward.spark.error.LakewardException.unchecked;

import io.lakeward.spark.call.ServiceProcedure;
import io.lakeward.spark.define.Definitions;
import io.lakeward.spark.error.LakewardException;
import io.lakeward.spark.error.LakewardException.Missing;
import io.lakeward.spark.scan.BackgroundRead;
import io.lakeward.spark.scan.SessionRules;
import io.lakeward.spark.service.ArrowRows;
import io.lakeward.spark.service.CatalogOptions;
import io.lakeward.spark.service.ServiceClient;
import io.lakeward.spark.service.SparkUser;
import io.lakeward.spark.version.ActiveSession;
import io.lakeward.spark.version.SparkVersion;
import io.lakeward.sys.rpc.v1.ReadTableRequest;
import io.lakeward.sys.rpc.v1.SystemTable;
import java.util.ArrayList;
import java.util.List;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.spark.SparkConf;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Tuple2;

/**
 * A Lakeward service as a Spark catalog. It shows the databases and tables of the streaming store
 * beside the system tables and procedures, and knows none of them by name: the service lists them.
 * Thread-safe.
 */
public class ServiceCatalog implements DefinedCatalog, FunctionCatalog {

  private String name;
  private String lakeName;
  private ServiceClient service;
  private NameResolver resolver;
  private DataTables dataTables;
  private Definitions definitions;
  private final PerUser<SystemTables> systemTables = new PerUser<>();

  /** The system tables that one user has loaded since the description had that token. */
  private static final class SystemTables {
    private String token = "";
    private final Map<Identifier, Table> tables = new HashMap<>();
  }

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    try {
      start(name, options);
    } catch (LakewardException error) {
      throw error.unchecked();
    }
  }

  /**
   * Does the same as {@link #initialize}; throws LakewardException for an unsupported Spark and for
   * a wrong option. Does not connect.
   */
  void start(String name, CaseInsensitiveStringMap options) throws LakewardException {
    SparkVersion.check(org.apache.spark.package$.MODULE$.SPARK_VERSION());
    this.name = name;
    CatalogOptions parsed = CatalogOptions.parse(name, options, startUpOptions(name));
    this.lakeName = parsed.lake().orElse("");
    this.service = new ServiceClient(name, parsed);
    this.definitions = new Definitions(service);
    LakeCatalog lake = new LakeCatalog(name, parsed.lake(), ActiveSession.get());
    this.dataTables = new DataTables(name, service, definitions, lake, parsed);
    this.resolver =
        new NameResolver(
            name,
            new DescriptionCache(
                user -> new ServiceDescription(service.describe(user)),
                SparkUser::served,
                System::nanoTime));
  }

  /** The catalog's options at the start of Spark, which no SET of a session changes. */
  private static Map<String, String> startUpOptions(String name) {
    Map<String, String> options = new HashMap<>();
    SparkConf conf = ActiveSession.get().startUpOptions();
    for (Tuple2<String, String> option : conf.getAllWithPrefix(CatalogOptions.prefix(name))) {
      options.put(option._1(), option._2());
    }
    return new CaseInsensitiveStringMap(options);
  }

  @Override
  public String name() {
    return name;
  }

  /** The name that plans and error messages of Spark show. */
  @Override
  public String toString() {
    return name + " (Lakeward at " + service.target() + ")";
  }

  @Override
  public String[][] listNamespaces() {
    return unchecked(
        () ->
            resolver.namespaces().stream()
                .map(namespace -> new String[] {namespace})
                .toArray(String[][]::new));
  }

  @Override
  public String[][] listNamespaces(String[] namespace) {
    return unchecked(
        () -> {
          if (namespace.length > 0 && !resolver.isEmptyDefault(namespace)) {
            resolver.namespace(namespace);
          }
          return namespace.length == 0 ? listNamespaces() : new String[0][];
        });
  }

  @Override
  public boolean namespaceExists(String[] namespace) {
    return unchecked(
        () ->
            resolver.findNamespace(namespace).isPresent() || resolver.isEmptyDefault(namespace));
  }

  /**
   * The comment of a namespace. Throws NoSuchNamespaceException for an unknown one: Spark calls
   * this method to find out whether the namespace exists.
   */
  @Override
  public Map<String, String> loadNamespaceMetadata(String[] namespace)
      throws NoSuchNamespaceException {
    Optional<String> spelled = unchecked(() -> resolver.findNamespace(namespace));
    if (spelled.isPresent()) {
      boolean system = unchecked(() -> resolver.isSystem(spelled.get()));
      return Map.of(
          SupportsNamespaces.PROP_COMMENT,
          system ? "System tables and procedures." : "A database of the streaming store.");
    }
    if (unchecked(() -> resolver.isEmptyDefault(namespace))) {
      return Map.of(
          SupportsNamespaces.PROP_COMMENT, "Empty: for sessions that have chosen no database.");
    }
    throw new NoSuchNamespaceException(namespace);
  }

  @Override
  public Identifier[] listTables(String[] namespace) {
    return unchecked(
        () -> {
          if (resolver.isEmptyDefault(namespace)) {
            return new Identifier[0];
          }
          List<Identifier> tables = new ArrayList<>();
          for (String database : listed(namespace, false)) {
            for (String table : dataTables.names(SparkUser.served(), database)) {
              tables.add(Identifier.of(new String[] {database}, table));
            }
          }
          return tables.toArray(Identifier[]::new);
        });
  }

  /**
   * The namespaces that a listing shows. A session that uses this catalog without a namespace sees
   * the tables of all databases, and the procedures of all system namespaces.
   */
  private List<String> listed(String[] namespace, boolean system) throws LakewardException {
    if (namespace.length > 0) {
      return List.of(resolver.namespace(namespace));
    }
    List<String> names = new ArrayList<>();
    for (String name : resolver.namespaces()) {
      if (resolver.isSystem(name) == system) {
        names.add(name);
      }
    }
    return names;
  }

  /** The tables of a namespace by their names, for a listing. Opens no lake table. */
  public SortedMap<String, Table> describedTables(String namespace) {
    return unchecked(
        () -> {
          String user = SparkUser.served();
          if (!resolver.isSystem(namespace)) {
            return dataTables.described(user, namespace);
          }
          SortedMap<String, Table> tables = new TreeMap<>();
          for (String name : dataTables.names(user, namespace)) {
            tables.put(name, virtualTable(resolver.table(namespace, name)));
          }
          return tables;
        });
  }

  @Override
  public Table loadTable(Identifier ident) {
    return unchecked(
        () -> {
          String namespace = tableNamespace(ident);
          return resolver.isSystem(namespace)
              ? virtualTable(resolver.table(namespace, ident.name()))
              : dataTables.load(SparkUser.served(), namespace, ident.name());
        });
  }

  /** Spark calls this for INSERT, UPDATE, DELETE or MERGE. */
  @Override
  public Table loadTable(Identifier ident, Set<TableWritePrivilege> privileges) {
    return unchecked(
        () -> {
          String namespace = tableNamespace(ident);
          if (resolver.isSystem(namespace)) {
            throw refusal("write to", fullName(ident));
          }
          WritableTable table =
              dataTables.writable(SparkUser.served(), namespace, ident.name());
          table.check(privileges);
          return table;
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

  /** Whether the service has the table; its rows may still be unreadable. */
  @Override
  public boolean tableExists(Identifier ident) {
    return LakewardException.unlessUnknown(
        () -> {
          String namespace = tableNamespace(ident);
          return resolver.isSystem(namespace)
              ? resolver.table(namespace, ident.name())
              : service.describeTable(
                  SparkUser.served(), namespace, TableName.of(ident.name()).table());
        });
  }

  @Override
  public Identifier[] listProcedures(String[] namespace) {
    return unchecked(
        () -> {
          if (resolver.isEmptyDefault(namespace)) {
            return new Identifier[0];
          }
          List<Identifier> procedures = new ArrayList<>();
          for (String database : listed(namespace, true)) {
            for (String procedure : resolver.procedures(database)) {
              procedures.add(Identifier.of(new String[] {database}, procedure));
            }
          }
          return procedures.toArray(Identifier[]::new);
        });
  }

  @Override
  public ServiceProcedure loadProcedure(Identifier ident) {
    return unchecked(
        () -> {
          String namespace = resolver.namespace(ident.namespace(), Missing.ROUTINE_NOT_FOUND);
          return new ServiceProcedure(name, resolver.procedure(namespace, ident.name()), service);
        });
  }

  /**
   * None: a service has no functions. Without this method Spark refuses SHOW FUNCTIONS, and with it
   * lists its own functions. Throws SCHEMA_NOT_FOUND.
   */
  @Override
  public Identifier[] listFunctions(String[] namespace) {
    listNamespaces(namespace);
    return new Identifier[0];
  }

  @Override
  public UnboundFunction loadFunction(Identifier ident) throws NoSuchFunctionException {
    throw new NoSuchFunctionException(ident);
  }

  @Override
  public boolean isSystem(String[] namespace) {
    return unchecked(
        () -> {
          Optional<String> spelled = resolver.findNamespace(namespace);
          return spelled.isPresent() && resolver.isSystem(spelled.get());
        });
  }

  @Override
  public Definitions definitions() {
    return definitions;
  }

  @Override
  public Identifier spelled(Identifier ident) throws LakewardException {
    String namespace = tableNamespace(ident);
    String table =
        service.describeTable(SparkUser.served(), namespace, ident.name()).getName();
    return Identifier.of(new String[] {namespace}, table);
  }

  @Override
  public String spelled(String[] namespace) throws LakewardException {
    return resolver.namespace(namespace);
  }

  @Override
  public void forgetNamespaces() {
    resolver.forget();
  }

  private Table past(Identifier ident, LakeCatalog.Version version) {
    return unchecked(
        () -> {
          String namespace = tableNamespace(ident);
          if (resolver.isSystem(namespace)) {
            throw new LakewardException(
                "the system table %s.%s.%s shows the present: read it without AS OF"
                    .formatted(name, namespace, ident.name()));
          }
          return dataTables.past(SparkUser.served(), namespace, ident.name(), version);
        });
  }

  private String tableNamespace(Identifier ident) throws LakewardException {
    return resolver.namespace(ident.namespace(), Missing.TABLE_OR_VIEW_NOT_FOUND);
  }

  /**
   * The table that this user loaded before, as long as the service's description is the same:
   * Spark loads it for every statement. Each user has a table of their own, also in Spark's cache
   * of results.
   */
  private Table virtualTable(NameResolver.DescribedTable described) throws LakewardException {
    // Spark collects its rules before it optimises, so they are installed while it analyses.
    SessionRules.install();
    String user = SparkUser.served();
    Identifier key =
        Identifier.of(new String[] {described.table().getNamespace()}, described.table().getName());
    synchronized (systemTables) {
      SystemTables loaded = systemTables.of(user, SystemTables::new);
      if (!loaded.token.equals(described.token())) {
        loaded.token = described.token();
        loaded.tables.clear();
      }
      Table table = loaded.tables.get(key);
      if (table == null) {
        table = newTable(user, described);
        loaded.tables.put(key, table);
      }
      return table;
    }
  }

  private Table newTable(String user, NameResolver.DescribedTable described)
      throws LakewardException {
    SystemTable table = described.table();
    String fullName = String.join(".", name, table.getNamespace(), table.getName());
    ReadTableRequest request =
        ReadTableRequest.newBuilder()
            .setNamespace(table.getNamespace())
            .setName(table.getName())
            .setToken(described.token())
            .setNullColumns(true)
            .setCatalog(name)
            .setLakeCatalog(lakeName)
            .build();
    StructType schema = ArrowRows.schema(fullName, table.getSchema().toByteArray());
    return new VirtualTable(
        fullName,
        table.getComment(),
        schema,
        (read, columns) -> BackgroundRead.begin(() -> readTable(user, read, columns)),
        request);
  }

  private InternalRow[] readTable(String user, ReadTableRequest request, StructType schema)
      throws LakewardException {
    try {
      return service.readTable(user, request, schema);
    } catch (LakewardException error) {
      // The error may advise to run the statement again, which then needs a new description.
      resolver.forget();
      throw error;
    }
  }
}
