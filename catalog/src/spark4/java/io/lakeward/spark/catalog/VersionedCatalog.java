package io.lakeward.spark.catalog;

import java.util.Arrays;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.TableSummary;

/** The methods of catalogs that came with Spark 4. */
interface VersionedCatalog extends TableCatalog, SupportsNamespaces, ProcedureCatalog {

  /** Spark 4.0 calls the method with the parts of {@code info}, and newer ones call this. */
  @Override
  default Table createTable(Identifier ident, TableInfo info)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return createTable(ident, info.columns(), info.partitions(), info.properties());
  }

  @Override
  default TableSummary[] listTableSummaries(String[] namespace)
      throws NoSuchNamespaceException, NoSuchTableException {
    return Arrays.stream(listTables(namespace))
        .map(table -> TableSummary.of(table, TableSummary.FOREIGN_TABLE_TYPE))
        .toArray(TableSummary[]::new);
  }
}
