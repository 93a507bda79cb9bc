package io.lakeward.spark.catalog;

import java.util.Set;

/**
 * Tells whether Spark loads a table only to list it. For {@code SHOW TABLE EXTENDED} and {@code
 * spark.catalog.listTables}, Spark loads every table of a namespace, one by one. Spark's interface
 * does not tell why it loads a table, so the stack is searched for the two callers. They are
 * internal to Spark, so a test counts the calls of both statements.
 */
final class ListingCallers {

  private static final String SHOW_TABLE_EXTENDED =
      "org.apache.spark.sql.execution.datasources.v2.ShowTablesExtendedExec";

  private static final String CATALOG = "org.apache.spark.sql.classic.Catalog";

  private static final Set<String> LISTING_METHODS = Set.of("listTables", "makeTablesDataset");

  private ListingCallers() {}

  /** Whether the current thread executes a listing. */
  static boolean areOnTheStack() {
    return StackWalker.getInstance().walk(frames -> frames.anyMatch(ListingCallers::isListing));
  }

  private static boolean isListing(StackWalker.StackFrame frame) {
    return frame.getClassName().equals(SHOW_TABLE_EXTENDED)
        || (frame.getClassName().equals(CATALOG)
            && LISTING_METHODS.contains(frame.getMethodName()));
  }
}
