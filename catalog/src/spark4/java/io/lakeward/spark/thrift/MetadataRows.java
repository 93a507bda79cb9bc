package io.lakeward.spark.thrift;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;

/** The rows of the answers to metadata calls, in the columns of {@code DatabaseMetaData}. */
final class MetadataRows {

  /** The position of the pattern of schemas among the arguments of each call. */
  static final int SCHEMAS = 1;

  private static final int TABLES = 2;
  private static final int LAST = 3;

  private static final Set<String> LISTINGS = Set.of("getSchemas", "getTables", "getColumns");
  private static final String TYPE = "TABLE";

  /** A session shows one catalog, and Spark's own answers name none. */
  private static final String NO_CATALOG = "";

  private final CatalogTree tree;
  private final List<Object[]> rows = new ArrayList<>();

  MetadataRows(CatalogTree tree) {
    this.tree = tree;
  }

  static boolean isListing(String call) {
    return LISTINGS.contains(call);
  }

  /** The rows for a call of a Thrift session, such as {@code getTables}. */
  List<Object[]> of(String call, Object[] arguments) {
    NamePattern schemas = NamePattern.of((String) arguments[SCHEMAS]);
    switch (call) {
      case "getTables" -> {
        List<?> types = (List<?>) arguments[LAST];
        if (types == null || types.isEmpty() || types.contains(TYPE)) {
          tree.forEachTable(schemas, NamePattern.of((String) arguments[TABLES]), this::addTable);
        }
      }
      case "getColumns" -> {
        NamePattern columns = NamePattern.of((String) arguments[LAST]);
        tree.forEachTable(
            schemas,
            NamePattern.of((String) arguments[TABLES]),
            (schema, name, table) -> addColumns(schema, name, table, columns));
      }
      default -> tree.schemas(schemas).forEach(name -> rows.add(new Object[] {name, NO_CATALOG}));
    }
    return rows;
  }

  private void addTable(String schema, String name, Table table) {
    String comment = table.properties().getOrDefault(TableCatalog.PROP_COMMENT, "");
    rows.add(
        new Object[] {NO_CATALOG, schema, name, TYPE, comment, null, null, null, null, null});
  }

  private void addColumns(String schema, String name, Table table, NamePattern columns) {
    int position = 0;
    for (Column column : table.columns()) {
      position++;
      if (columns.matches(column.name())) {
        rows.add(row(schema, name, column, position));
      }
    }
  }

  private static Object[] row(String schema, String table, Column column, int position) {
    JdbcType type = JdbcType.of(column.dataType());
    return new Object[] {
      null, // TABLE_CAT
      schema,
      table,
      column.name(),
      type.number(),
      column.dataType().sql(),
      type.size(),
      null, // BUFFER_LENGTH
      type.scale(),
      type.radix(),
      column.nullable() ? 1 : 0,
      column.comment() == null ? "" : column.comment(),
      null, // COLUMN_DEF
      null, // SQL_DATA_TYPE
      null, // SQL_DATETIME_SUB
      null, // CHAR_OCTET_LENGTH
      position,
      column.nullable() ? "YES" : "NO",
      null, // SCOPE_CATALOG
      null, // SCOPE_SCHEMA
      null, // SCOPE_TABLE
      null, // SOURCE_DATA_TYPE
      "NO" // IS_AUTO_INCREMENT
    };
  }
}
