package io.lakeward.spark.catalog;

import static io.lakeward.spark.error.LakewardException.unchecked;

import io.lakeward.spark.define.Definitions;
import io.lakeward.spark.error.LakewardException;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.connector.expressions.Transform;

/**
 * The methods of a catalog that define databases and tables. Each hands the change to the service.
 * Changes of system tables are refused here.
 */
interface DefinedCatalog extends VersionedCatalog {

  String SYSTEM_TABLES_ARE_READ_ONLY =
      "system tables are read-only; what can be changed is changed by CALL, see SHOW PROCEDURES";

  /** Whether a namespace, as the user typed it, has system tables. */
  boolean isSystem(String[] namespace);

  Definitions definitions();

  /** A name as the service spells it: of a table that exists. Throws TABLE_OR_VIEW_NOT_FOUND. */
  Identifier spelled(Identifier ident) throws LakewardException;

  /** A namespace as the service spells it. Throws SCHEMA_NOT_FOUND. */
  String spelled(String[] namespace) throws LakewardException;

  /** Makes the next look-up of a namespace ask the service. */
  void forgetNamespaces();

  @Override
  Table loadTable(Identifier ident);

  @Override
  Table loadTable(Identifier ident, Set<TableWritePrivilege> privileges);

  @Override
  default Table createTable(
      Identifier ident, Column[] columns, Transform[] partitions, Map<String, String> properties)
      throws TableAlreadyExistsException {
    checkIsData("create", ident);
    if (DefinitionCallers.replaceTableAsSelect()) {
      // Spark would overwrite the new table with the rows, and leave it empty when that is refused.
      throw new LakewardException(
              "cannot create %s with CREATE OR REPLACE TABLE AS SELECT: write CREATE TABLE ... AS SELECT"
                  .formatted(fullName(ident)))
          .unchecked();
    }
    String database = unchecked(() -> spelled(ident.namespace()));
    try {
      definitions().createTable(database, ident.name(), columns, partitions, properties);
      // CREATE TABLE AS SELECT writes to it.
      return loadTable(
          Identifier.of(new String[] {database}, ident.name()),
          Set.of(TableWritePrivilege.INSERT));
    } catch (LakewardException error) {
      throw error.unchecked();
    }
  }

  @Override
  default Table alterTable(Identifier ident, TableChange... changes) {
    checkIsData("alter", ident);
    return unchecked(
        () -> {
          Identifier spelled = spelled(ident);
          definitions().alterTable(spelled.namespace()[0], spelled.name(), changes);
          return loadTable(spelled);
        });
  }

  @Override
  default boolean dropTable(Identifier ident) {
    return dropTable(ident, false);
  }

  @Override
  default boolean purgeTable(Identifier ident) {
    return dropTable(ident, true);
  }

  private boolean dropTable(Identifier ident, boolean purge) {
    checkIsData("drop", ident);
    if (DefinitionCallers.replaceTable()) {
      throw new LakewardException(
              ("cannot replace %s: its rows would be lost before the new table exists. Drop the table"
                      + " first, or give the new one another name")
                  .formatted(fullName(ident)))
          .unchecked();
    }
    return LakewardException.unlessUnknown(
        () -> {
          Identifier spelled = spelled(ident);
          definitions().dropTable(spelled.namespace()[0], spelled.name(), purge);
          return null;
        });
  }

  @Override
  default void renameTable(Identifier oldIdent, Identifier newIdent) {
    checkIsData("rename", oldIdent);
    throw new LakewardException(
            ("cannot rename %s: a table of the streaming store keeps its name, by which its clients"
                    + " and its lake table know it. Create a table with the new name, and load it.")
                .formatted(fullName(oldIdent)))
        .unchecked();
  }

  @Override
  default void createNamespace(String[] namespace, Map<String, String> metadata)
      throws NamespaceAlreadyExistsException {
    checkIsDatabase("create", namespace);
    try {
      definitions().createDatabase(namespace[0], metadata);
      forgetNamespaces();
    } catch (LakewardException error) {
      throw error.unchecked();
    }
  }

  @Override
  default void alterNamespace(String[] namespace, NamespaceChange... changes) {
    checkIsDatabase("alter", namespace);
    throw new LakewardException(
            "cannot alter the database %s: databases have no properties and no comment here"
                .formatted(fullName(namespace)))
        .unchecked();
  }

  @Override
  default boolean dropNamespace(String[] namespace, boolean cascade) {
    checkIsDatabase("drop", namespace);
    return unchecked(
        () -> {
          definitions().dropDatabase(spelled(namespace), cascade);
          forgetNamespaces();
          return true;
        });
  }

  private void checkIsDatabase(String action, String[] namespace) {
    if (isSystem(namespace)) {
      throw refusal(action, fullName(namespace)).unchecked();
    }
    if (namespace.length != 1) {
      throw new LakewardException(
              "cannot %s %s: names in this catalog are namespace.table, with exactly one namespace"
                  .formatted(action, fullName(namespace)))
          .unchecked();
    }
  }

  private void checkIsData(String action, Identifier ident) {
    if (isSystem(ident.namespace())) {
      throw refusal(action, fullName(ident)).unchecked();
    }
  }

  /** The error for a statement that changes a system table, or a namespace that has them. */
  default LakewardException refusal(String action, String fullName) {
    return new LakewardException(
        "cannot %s %s: %s".formatted(action, fullName, SYSTEM_TABLES_ARE_READ_ONLY));
  }

  /** The name of a table as the user typed it, with the catalog. */
  default String fullName(Identifier ident) {
    return fullName(ident.namespace()) + "." + ident.name();
  }

  private String fullName(String[] namespace) {
    return name() + "." + String.join(".", namespace);
  }
}
