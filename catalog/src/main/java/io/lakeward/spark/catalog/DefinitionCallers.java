package io.lakeward.spark.catalog;

import java.util.Set;

/**
 * Tells for which statement Spark asks for a table's properties, or drops a table. Spark's interface
 * does not tell it, so the stack is searched for the class that executes the statement. These
 * classes are internal to Spark, so a test runs each of the statements.
 */
final class DefinitionCallers {

  private static final String PACKAGE = "org.apache.spark.sql.execution.datasources.v2.";

  private static final Set<String> SHOW_CREATE_TABLE = Set.of(PACKAGE + "ShowCreateTableExec");

  private static final Set<String> REPLACE_TABLE =
      Set.of(PACKAGE + "ReplaceTableExec", PACKAGE + "ReplaceTableAsSelectExec");

  private static final Set<String> CREATE_TABLE_AS_SELECT =
      Set.of(PACKAGE + "CreateTableAsSelectExec");

  private static final Set<String> REPLACE_TABLE_AS_SELECT =
      Set.of(PACKAGE + "ReplaceTableAsSelectExec");

  private DefinitionCallers() {}

  /** Whether the current thread executes SHOW CREATE TABLE. */
  static boolean showCreateTable() {
    return isOnTheStack(SHOW_CREATE_TABLE);
  }

  /**
   * Whether the current thread executes CREATE OR REPLACE TABLE. Spark drops the former table there,
   * before it knows that the new one can be created.
   */
  static boolean replaceTable() {
    return isOnTheStack(REPLACE_TABLE);
  }

  /** Whether the current thread executes CREATE TABLE AS SELECT: Spark drops its table if it fails. */
  static boolean createTableAsSelect() {
    return isOnTheStack(CREATE_TABLE_AS_SELECT);
  }

  /** Whether the current thread executes CREATE OR REPLACE TABLE AS SELECT. */
  static boolean replaceTableAsSelect() {
    return isOnTheStack(REPLACE_TABLE_AS_SELECT);
  }

  private static boolean isOnTheStack(Set<String> classes) {
    return StackWalker.getInstance()
        .walk(frames -> frames.anyMatch(frame -> classes.contains(frame.getClassName())));
  }
}
