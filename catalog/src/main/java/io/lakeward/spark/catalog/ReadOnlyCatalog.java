package io.lakeward.spark.catalog;

import io.lakeward.spark.error.LakewardException;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;

/** The methods of a catalog that change something. Each throws an error with the reason. */
interface ReadOnlyCatalog extends TableCatalog, SupportsNamespaces {

  String SYSTEM_TABLES_ARE_READ_ONLY =
      "system tables are read-only; what can be changed is changed by CALL, see SHOW PROCEDURES";

  String STORE_IS_READ_ONLY =
      "this catalog is read-only; tables are made and filled by the streaming store's own clients,"
          + " such as `lakeward ingest`";

  /** Whether a namespace, as the user typed it, has system tables. */
  boolean isSystem(String[] namespace);

  /** Spark calls this for INSERT, UPDATE, DELETE or MERGE. */
  @Override
  default Table loadTable(Identifier ident, Set<TableWritePrivilege> privileges) {
    throw refusal("write to", ident);
  }

  @Override
  default Table createTable(Identifier ident, TableInfo info) {
    throw refusal("create", ident);
  }

  @Override
  default Table alterTable(Identifier ident, TableChange... changes) {
    throw refusal("alter", ident);
  }

  @Override
  default boolean dropTable(Identifier ident) {
    throw refusal("drop", ident);
  }

  @Override
  default boolean purgeTable(Identifier ident) {
    throw refusal("drop", ident);
  }

  @Override
  default void renameTable(Identifier oldIdent, Identifier newIdent) {
    throw refusal("rename", oldIdent);
  }

  @Override
  default void createNamespace(String[] namespace, Map<String, String> metadata) {
    throw refusal("create", namespace, "");
  }

  @Override
  default void alterNamespace(String[] namespace, NamespaceChange... changes) {
    throw refusal("alter", namespace, "");
  }

  @Override
  default boolean dropNamespace(String[] namespace, boolean cascade) {
    throw refusal("drop", namespace, "");
  }

  private RuntimeException refusal(String action, Identifier ident) {
    return refusal(action, ident.namespace(), "." + ident.name());
  }

  /** A hint with the command for the action; empty if there is none. */
  private static String command(String action, String table) {
    return switch (action) {
      case "create", "write to" -> ". To make or fill it: lakeward ingest " + table + " FILE";
      case "alter" ->
          ". To set an option or the comment: lakeward set-option %s NAME=VALUE. To add a column: lakeward add-column %s NAME TYPE"
              .formatted(table, table);
      case "drop" -> ". To drop it: lakeward drop " + table;
      default -> "";
    };
  }

  private RuntimeException refusal(String action, String[] namespace, String suffix) {
    String table = String.join(".", namespace) + suffix;
    String path = name() + "." + table;
    String why =
        isSystem(namespace)
            ? SYSTEM_TABLES_ARE_READ_ONLY
            : STORE_IS_READ_ONLY + (suffix.isEmpty() ? "" : command(action, table));
    return new LakewardException("cannot " + action + " " + path + ": " + why).unchecked();
  }
}
