package io.lakeward.spark.thrift;

import io.lakeward.spark.catalog.ServiceCatalog;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Table;

/**
 * The schemas and tables of a catalog of Lakeward, as JDBC lists them: a schema for each database,
 * the system database among them. Reads a page of descriptions from the service for each thousand
 * tables, and opens no lake table.
 */
final class CatalogTree {

  /** Receives one table of a listing. */
  interface Visitor {
    void visit(String schema, String name, Table table);
  }

  private final ServiceCatalog catalog;

  private CatalogTree(ServiceCatalog catalog) {
    this.catalog = catalog;
  }

  /** The current catalog of the session; empty if it is not one of Lakeward. */
  static Optional<CatalogTree> current(SparkSession session) {
    CatalogPlugin current = session.sessionState().catalogManager().currentCatalog();
    return current instanceof ServiceCatalog service
        ? Optional.of(new CatalogTree(service))
        : Optional.empty();
  }

  /** The matching schemas, in the order of their names. */
  List<String> schemas(NamePattern pattern) {
    return Arrays.stream(catalog.listNamespaces())
        .map(namespace -> namespace[0])
        .filter(pattern::matches)
        .sorted()
        .toList();
  }

  /** Visits the matching tables, in the order of the names of their schemas and their own. */
  void forEachTable(NamePattern schemas, NamePattern tables, Visitor visitor) {
    for (String schema : schemas(schemas)) {
      catalog
          .describedTables(schema)
          .forEach(
              (name, table) -> {
                if (tables.matches(name)) {
                  visitor.visit(schema, name, table);
                }
              });
    }
  }
}
