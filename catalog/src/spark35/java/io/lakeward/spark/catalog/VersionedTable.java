package io.lakeward.spark.catalog;

import org.apache.spark.sql.connector.catalog.Table;

/** The methods of tables that came with Spark 4. Spark 3.5 calls none of them. */
interface VersionedTable extends Table {

  TableDefinition definition();

  /** The id of the table. */
  String id();

  /** The version of the table. */
  String version();

  /** The name of a table of another catalog, which is its id in Spark 3.5. */
  static String id(Table table) {
    return table.name();
  }

  /** Null: a table of another catalog has no version. */
  static String version(Table table) {
    return null;
  }
}
