package io.lakeward.spark;

import io.lakeward.spark.LakewardException.Missing;
import io.lakeward.sys.rpc.v1.DescribeTableResponse;
import io.lakeward.sys.rpc.v1.Procedure;
import io.lakeward.sys.rpc.v1.ReadTableRequest;
import io.lakeward.sys.rpc.v1.SystemTable;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
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
  private DescriptionCache descriptions;

  /** Spark makes catalogs by reflection. */
  public LakewardCatalog() {}

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    try {
      this.name = name;
      this.service = new ServiceClient(name, CatalogOptions.parse(name, options));
      this.descriptions = new DescriptionCache(service::describe, System::nanoTime);
    } catch (LakewardException error) {
      throw error.unchecked();
    }
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
            descriptions.get().namespaces().stream()
                .map(one -> new String[] {one})
                .toArray(String[][]::new));
  }

  @Override
  public String[][] listNamespaces(String[] namespace) {
    return answer(
        () -> {
          if (namespace.length > 0) {
            require(namespace);
          }
          return namespace.length == 0 ? listNamespaces() : new String[0][];
        });
  }

  @Override
  public boolean namespaceExists(String[] namespace) {
    return answer(() -> find(namespace).isPresent());
  }

  /**
   * Of an unknown namespace it throws what Spark expects, by which it tells whether there is one.
   */
  @Override
  public Map<String, String> loadNamespaceMetadata(String[] namespace)
      throws NoSuchNamespaceException {
    Optional<String> found = answer(() -> find(namespace));
    if (found.isEmpty()) {
      throw new NoSuchNamespaceException(namespace);
    }
    boolean system = answer(() -> descriptions.get().isSystem(found.get()));
    return Map.of(
        SupportsNamespaces.PROP_COMMENT,
        system ? "System tables and procedures." : "A database of the streaming store.");
  }

  @Override
  public Identifier[] listTables(String[] namespace) {
    return answer(
        () -> {
          String database = require(namespace);
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
    return answer(() -> load(ident));
  }

  @Override
  public boolean tableExists(Identifier ident) {
    return answer(
        () -> {
          try {
            load(ident);
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
          String database = require(namespace);
          return descriptions.get().procedures(database).stream()
              .map(procedure -> Identifier.of(new String[] {database}, procedure.getName()))
              .toArray(Identifier[]::new);
        });
  }

  @Override
  public UnboundProcedure loadProcedure(Identifier ident) {
    return answer(
        () -> {
          String namespace = require(ident.namespace());
          Optional<Procedure> found =
              descriptions.find(description -> description.procedure(namespace, ident.name()));
          if (found.isEmpty()) {
            List<String> known =
                descriptions.get().procedures(namespace).stream().map(Procedure::getName).toList();
            throw unknown(Missing.ROUTINE_NOT_FOUND, "procedure", namespace, ident.name(), known);
          }
          return new ServiceProcedure(name, found.get(), service);
        });
  }

  @Override
  public boolean isSystem(String[] namespace) {
    return answer(
        () -> {
          Optional<String> found = find(namespace);
          return found.isPresent() && descriptions.get().isSystem(found.get());
        });
  }

  private Table load(Identifier ident) throws LakewardException {
    String namespace = require(ident.namespace(), Missing.TABLE_OR_VIEW_NOT_FOUND);
    Optional<Table> system =
        descriptions.find(
            description -> {
              Optional<SystemTable> found = description.table(namespace, ident.name());
              return found.isPresent()
                  ? Optional.of(virtualTable(found.get(), description.token()))
                  : Optional.empty();
            });
    if (system.isPresent()) {
      return system.get();
    }
    Description description = descriptions.get();
    if (description.isSystem(namespace)) {
      List<String> known =
          description.tables(namespace).stream().map(SystemTable::getName).toList();
      throw unknown(
          Missing.TABLE_OR_VIEW_NOT_FOUND, "system table", namespace, ident.name(), known);
    }
    return dataTable(namespace, ident.name());
  }

  private Table virtualTable(SystemTable table, String token) throws LakewardException {
    String fullName = String.join(".", name, table.getNamespace(), table.getName());
    ReadTableRequest request =
        ReadTableRequest.newBuilder()
            .setNamespace(table.getNamespace())
            .setName(table.getName())
            .setToken(token)
            .build();
    return new VirtualTable(
        fullName,
        table.getComment(),
        ArrowRows.schema(fullName, table.getSchema().toByteArray()),
        this::rows,
        request);
  }

  private InternalRow[] rows(ReadTableRequest request, StructType schema) throws LakewardException {
    try {
      return service.readTable(request, schema);
    } catch (LakewardException error) {
      // The advice may be to run the statement again: then with what the service has now.
      descriptions.forget();
      throw error;
    }
  }

  private Table dataTable(String namespace, String tableName) throws LakewardException {
    DescribeTableResponse table = service.describeTable(namespace, tableName);
    String fullName = String.join(".", name, namespace, table.getName());
    return new DataTable(
        fullName,
        table.getComment(),
        ArrowRows.schema(fullName, table.getSchema().toByteArray()),
        table.getPropertiesMap());
  }

  private Optional<String> find(String[] namespace) throws LakewardException {
    return namespace.length == 1
        ? descriptions.find(description -> description.namespace(namespace[0]))
        : Optional.empty();
  }

  private String require(String[] namespace) throws LakewardException {
    return require(namespace, Missing.SCHEMA_NOT_FOUND);
  }

  /**
   * The namespace as it is spelled. Without it, {@code missing} is what Spark should hear; the user
   * reads which there are.
   */
  private String require(String[] namespace, Missing missing) throws LakewardException {
    Optional<String> found = find(namespace);
    if (found.isPresent()) {
      return found.get();
    }
    String there =
        "The namespaces of "
            + name
            + " are: "
            + Names.listed(descriptions.get().namespaces())
            + ".";
    String asked = String.join(".", namespace);
    String message =
        namespace.length == 1
            ? "there is no namespace " + asked + " in the catalog " + name + ". " + there
            : "names in the catalog "
                + name
                + " are namespace.table, with exactly one namespace. "
                + there;
    throw LakewardException.unknown(missing, asked, message);
  }

  private LakewardException unknown(
      Missing missing, String what, String namespace, String asked, Collection<String> known) {
    String path = String.join(".", name, namespace, asked);
    return LakewardException.unknown(
        missing,
        path,
        "there is no "
            + what
            + " "
            + path
            + ". Those of "
            + namespace
            + " are: "
            + Names.listed(known)
            + ".");
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
