package io.lakeward.spark.catalog;

import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.expressions.NamedReference;

/** The methods of tables that came with Spark 4. */
interface VersionedTable extends Table {

  TableDefinition definition();

  /** The primary key, which the store enforces; Spark neither checks nor relies on it. */
  @Override
  default Constraint[] constraints() {
    NamedReference[] key = definition().primaryKey();
    return key.length == 0
        ? new Constraint[0]
        : new Constraint[] {
          Constraint.primaryKey("primary_key", key).enforced(false).rely(false).build()
        };
  }

  /** The id of a table of another catalog. */
  static String id(Table table) {
    return table.id();
  }

  /** The version of a table of another catalog. */
  static String version(Table table) {
    return table.version();
  }
}
