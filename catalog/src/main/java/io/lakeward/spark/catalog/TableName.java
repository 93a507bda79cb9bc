package io.lakeward.spark.catalog;

import java.util.Locale;

/**
 * The name of a data table in a statement, and the rows that it means. Names of tables have no
 * dollar sign, so a suffix is no part of one.
 *
 * @param table the name in the streaming store
 */
record TableName(String table, Rows rows) {

  /** The rows of a table that a name can mean. */
  enum Rows {
    /** The rows that the option {@code plain-name} chooses. */
    PLAIN(""),
    /** The lake copy alone. */
    LAKE("$lake"),
    /** The records of the log, with the kind of each change. */
    CHANGELOG("$changelog");

    private final String suffix;

    Rows(String suffix) {
      this.suffix = suffix;
    }
  }

  /** The name as a user typed it, in any case. */
  static TableName of(String name) {
    for (Rows rows : Rows.values()) {
      int end = name.length() - rows.suffix.length();
      if (rows != Rows.PLAIN && end > 0 && name.toLowerCase(Locale.ROOT).endsWith(rows.suffix)) {
        return new TableName(name.substring(0, end), rows);
      }
    }
    return new TableName(name, Rows.PLAIN);
  }

  /** The suffix of names with these rows; may be empty. */
  String suffix() {
    return rows.suffix;
  }
}
