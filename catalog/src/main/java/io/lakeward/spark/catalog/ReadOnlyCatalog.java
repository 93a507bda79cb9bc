package io.lakeward.spark.catalog;

import io.lakeward.spark.error.LakewardException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.TableCatalog;

/** A catalog with system tables, whose rows no statement writes. */
interface ReadOnlyCatalog extends TableCatalog, SupportsNamespaces {

  String SYSTEM_TABLES_ARE_READ_ONLY =
      "system tables are read-only; what can be changed is changed by CALL, see SHOW PROCEDURES";

  /** Whether a namespace, as the user typed it, has system tables. */
  boolean isSystem(String[] namespace);

  /** The error for a statement that writes rows of a system table. */
  default LakewardException unwritable(Identifier ident) {
    return new LakewardException(
        "cannot write to %s.%s.%s: %s"
            .formatted(
                name(),
                String.join(".", ident.namespace()),
                ident.name(),
                SYSTEM_TABLES_ARE_READ_ONLY));
  }
}
