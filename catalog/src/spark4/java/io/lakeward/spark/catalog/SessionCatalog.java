package io.lakeward.spark.catalog;

import io.lakeward.spark.error.LakewardException;
import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.DelegatingCatalogExtension;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.TableSummary;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Spark's session catalog with the namespace {@code sys} beside its databases, for a Spark whose
 * default catalog cannot be one of Lakeward.
 *
 * <p>Statements about other namespaces go to the session catalog without a call to the service, so
 * they work without a service, and with wrong options. A database {@code sys} of the session
 * catalog itself stays as it is and hides Lakeward's. Thread-safe.
 */
public class SessionCatalog extends DelegatingCatalogExtension implements ProcedureCatalog {

  /** The namespace of system tables and procedures, as every service has it. */
  private static final String SYSTEM = "sys";

  private final ServiceCatalog lakeward = new ServiceCatalog();
  private LakewardException notStarted;

  /**
   * Keeps an error about wrong options, or an unsupported Spark, for the first statement about
   * {@code sys}. If this method threw it, Spark would only log it and run without this catalog.
   */
  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    try {
      lakeward.start(name, options);
    } catch (LakewardException error) {
      notStarted = error;
    }
  }

  @Override
  public String[][] listNamespaces() throws NoSuchNamespaceException {
    String[][] own = super.listNamespaces();
    return Arrays.stream(own).anyMatch(SessionCatalog::isSystemName)
        ? own
        : Stream.concat(Arrays.stream(own), Stream.<String[]>of(new String[] {SYSTEM}))
            .toArray(String[][]::new);
  }

  @Override
  public String[][] listNamespaces(String[] namespace) throws NoSuchNamespaceException {
    return namespace.length == 0
        ? listNamespaces()
        : namespaces(namespace).listNamespaces(namespace);
  }

  @Override
  public boolean namespaceExists(String[] namespace) {
    return isOurs(namespace) || super.namespaceExists(namespace);
  }

  @Override
  public Map<String, String> loadNamespaceMetadata(String[] namespace)
      throws NoSuchNamespaceException {
    return namespaces(namespace).loadNamespaceMetadata(namespace);
  }

  @Override
  public void createNamespace(String[] namespace, Map<String, String> metadata)
      throws NamespaceAlreadyExistsException {
    namespaces(namespace).createNamespace(namespace, metadata);
  }

  @Override
  public void alterNamespace(String[] namespace, NamespaceChange... changes)
      throws NoSuchNamespaceException {
    namespaces(namespace).alterNamespace(namespace, changes);
  }

  @Override
  public boolean dropNamespace(String[] namespace, boolean cascade)
      throws NoSuchNamespaceException, NonEmptyNamespaceException {
    return namespaces(namespace).dropNamespace(namespace, cascade);
  }

  @Override
  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    return tables(namespace).listTables(namespace);
  }

  @Override
  public TableSummary[] listTableSummaries(String[] namespace)
      throws NoSuchNamespaceException, NoSuchTableException {
    return tables(namespace).listTableSummaries(namespace);
  }

  @Override
  public Table loadTable(Identifier ident) throws NoSuchTableException {
    return tables(ident.namespace()).loadTable(ident);
  }

  @Override
  public Table loadTable(Identifier ident, Set<TableWritePrivilege> privileges)
      throws NoSuchTableException {
    return tables(ident.namespace()).loadTable(ident, privileges);
  }

  @Override
  public Table loadTable(Identifier ident, String version) throws NoSuchTableException {
    return tables(ident.namespace()).loadTable(ident, version);
  }

  @Override
  public Table loadTable(Identifier ident, long timestamp) throws NoSuchTableException {
    return tables(ident.namespace()).loadTable(ident, timestamp);
  }

  @Override
  public void invalidateTable(Identifier ident) {
    tables(ident.namespace()).invalidateTable(ident);
  }

  @Override
  public boolean tableExists(Identifier ident) {
    return tables(ident.namespace()).tableExists(ident);
  }

  @Override
  public Table createTable(Identifier ident, TableInfo info)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return tables(ident.namespace()).createTable(ident, info);
  }

  /** Spark 4.0 calls this, and newer ones {@link #createTable(Identifier, TableInfo)}. */
  @Override
  public Table createTable(
      Identifier ident, Column[] columns, Transform[] partitions, Map<String, String> properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return tables(ident.namespace()).createTable(ident, columns, partitions, properties);
  }

  @Override
  public boolean useNullableQuerySchema() {
    return ((TableCatalog) delegate).useNullableQuerySchema();
  }

  @Override
  public Table alterTable(Identifier ident, TableChange... changes) throws NoSuchTableException {
    return tables(ident.namespace()).alterTable(ident, changes);
  }

  @Override
  public boolean dropTable(Identifier ident) {
    return tables(ident.namespace()).dropTable(ident);
  }

  @Override
  public boolean purgeTable(Identifier ident) {
    return tables(ident.namespace()).purgeTable(ident);
  }

  @Override
  public void renameTable(Identifier oldIdent, Identifier newIdent)
      throws NoSuchTableException, TableAlreadyExistsException {
    tables(oldIdent.namespace()).renameTable(oldIdent, newIdent);
  }

  @Override
  public Identifier[] listFunctions(String[] namespace) throws NoSuchNamespaceException {
    return isOurs(namespace) ? new Identifier[0] : super.listFunctions(namespace);
  }

  @Override
  public UnboundFunction loadFunction(Identifier ident) throws NoSuchFunctionException {
    if (isOurs(ident.namespace())) {
      throw new NoSuchFunctionException(ident);
    }
    return super.loadFunction(ident);
  }

  @Override
  public boolean functionExists(Identifier ident) {
    return !isOurs(ident.namespace()) && super.functionExists(ident);
  }

  @Override
  public Identifier[] listProcedures(String[] namespace) {
    return isSystemName(namespace)
        ? procedures(namespace).listProcedures(namespace)
        : new Identifier[0];
  }

  @Override
  public UnboundProcedure loadProcedure(Identifier ident) {
    return procedures(ident.namespace()).loadProcedure(ident);
  }

  private TableCatalog tables(String[] namespace) {
    return isOurs(namespace) ? lakeward() : (TableCatalog) delegate;
  }

  private SupportsNamespaces namespaces(String[] namespace) {
    return isOurs(namespace) ? lakeward() : (SupportsNamespaces) delegate;
  }

  /** The Lakeward catalog for {@code sys}; no other namespace has procedures. */
  private ProcedureCatalog procedures(String[] namespace) {
    if (isOurs(namespace)) {
      return lakeward();
    }
    String path = String.join(".", namespace);
    throw new LakewardException(
            isSystemName(namespace)
                ? ("%s.%s is a database of the session catalog's own, which hides Lakeward's: give"
                        + " Lakeward a catalog of its own, as `lakeward spark-conf` prints it")
                    .formatted(name(), path)
                : "%s.%s has no procedures: those of Lakeward are in %s.%s"
                    .formatted(name(), path, name(), SYSTEM))
        .unchecked();
  }

  private ServiceCatalog lakeward() {
    if (notStarted != null) {
      throw notStarted.unchecked();
    }
    return lakeward;
  }

  /** Whether this is the namespace of system tables, and not a database of the same name. */
  private boolean isOurs(String[] namespace) {
    return isSystemName(namespace) && !super.namespaceExists(namespace);
  }

  private static boolean isSystemName(String[] namespace) {
    return namespace.length == 1 && namespace[0].equalsIgnoreCase(SYSTEM);
  }
}
