package io.lakeward.spark.fresh;

import java.util.Locale;

/** Finds out from an error of Spark whether an executor lacks the Python of tasks. */
public final class PythonProblems {

  /** Part of the message of Java for a program that does not exist. */
  private static final String NO_PROGRAM = "cannot run program";

  /** The error of Python for a package that is not installed. */
  private static final String NO_MODULE = "No module named 'tiering";

  /** The error of a Python without any package, before Spark's own program starts. */
  private static final String NO_PYSPARK = "No module named 'pyspark";

  /** The error of Spark if its program in a Python process ends at once. */
  private static final String NO_DAEMON = "pyspark.daemon's stdout";

  /** The error of Python for a package that is older than this plugin. */
  private static final String NO_FUNCTION = "tiering.";

  private PythonProblems() {}

  /** The problem in words; null if the message is about anything else. */
  public static String of(String message) {
    if (message.toLowerCase(Locale.ROOT).contains(NO_PROGRAM)) {
      return "an executor has no Python with the package lakeward";
    }
    if (message.contains(NO_MODULE) || message.contains(NO_PYSPARK)) {
      return message.contains(NO_MODULE + "'") || message.contains(NO_PYSPARK)
          ? "the Python of an executor does not have the package lakeward"
          : "the Python of an executor has another version of the package lakeward";
    }
    if (message.contains(NO_DAEMON)) {
      return "the Python of an executor does not start Spark's own program, as without PySpark";
    }
    return message.contains(NO_FUNCTION) && message.contains("AttributeError")
        ? "the Python of an executor has another version of the package lakeward"
        : null;
  }
}
