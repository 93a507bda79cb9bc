package io.lakeward.spark.catalog;

import io.lakeward.spark.error.LakewardException;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;

/** The methods of a catalog that write rows. Each throws an error with the reason. */
interface ReadOnlyCatalog extends TableCatalog, SupportsNamespaces {

  String SYSTEM_TABLES_ARE_READ_ONLY =
      "system tables are read-only; what can be changed is changed by CALL, see SHOW PROCEDURES";

  String ROWS_ARE_READ_ONLY =
      "the rows of this catalog are read-only; tables are filled by the streaming store's own"
          + " clients, such as `lakeward ingest`";

  /** Whether a namespace, as the user typed it, has system tables. */
  boolean isSystem(String[] namespace);

  /** Spark calls this for INSERT, UPDATE, DELETE or MERGE. */
  @Override
  default Table loadTable(Identifier ident, Set<TableWritePrivilege> privileges) {
    throw refusal("write to", ident);
  }

  private RuntimeException refusal(String action, Identifier ident) {
    String table = String.join(".", ident.namespace()) + "." + ident.name();
    String why =
        isSystem(ident.namespace())
            ? SYSTEM_TABLES_ARE_READ_ONLY
            : ROWS_ARE_READ_ONLY + ". To fill it: lakeward ingest " + table + " FILE";
    return new LakewardException("cannot " + action + " " + name() + "." + table + ": " + why)
        .unchecked();
  }
}
