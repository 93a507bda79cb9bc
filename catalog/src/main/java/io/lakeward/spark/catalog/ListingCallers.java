package io.lakeward.spark.catalog;

import java.util.Set;

/**
 * Tells whether a table is loaded only to be listed. For {@code SHOW TABLE EXTENDED} and {@code
 * spark.catalog.listTables}, Spark loads every table of a namespace, one by one, and so do the
 * metadata calls of JDBC. Spark's interface does not tell why it loads a table, so the stack is
 * searched for the callers. Two are internal to Spark, so tests count the calls of each listing.
 */
final class ListingCallers {

  private static final String SHOW_TABLE_EXTENDED =
      "org.apache.spark.sql.execution.datasources.v2.ShowTablesExtendedExec";

  private static final String METADATA_CALLS = "io.lakeward.spark.thrift.CatalogTree";

  private static final String CATALOG = "org.apache.spark.sql.classic.Catalog";

  private static final Set<String> LISTING_METHODS = Set.of("listTables", "makeTablesDataset");

  private ListingCallers() {}

  /** Whether the current thread executes a listing. */
  static boolean areOnTheStack() {
    return StackWalker.getInstance().walk(frames -> frames.anyMatch(ListingCallers::isListing));
  }

  private static boolean isListing(StackWalker.StackFrame frame) {
    return frame.getClassName().equals(SHOW_TABLE_EXTENDED)
        || frame.getClassName().equals(METADATA_CALLS)
        || (frame.getClassName().equals(CATALOG)
            && LISTING_METHODS.contains(frame.getMethodName()));
  }
}
