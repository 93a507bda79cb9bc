package io.lakeward.spark.write;

import io.lakeward.spark.error.LakewardException;
import io.lakeward.spark.error.LakewardException.Work;
import io.lakeward.spark.fresh.PythonProblems;
import java.util.OptionalLong;

/** The errors of statements that write: what happened, and what is written already. */
final class WriteErrors {

  /** How Python shows an error of Lakeward (tiering/table_writes/spark_tasks.py). */
  private static final String OF_LAKEWARD = "WriteFailed: ";

  private WriteErrors() {}

  /** The error of an executor or driver without the package lakeward. */
  static LakewardException withoutPython(String table, String problem, Exception cause) {
    return new LakewardException(
        ("[WriteUnavailable] cannot write to %s: %s. Install the package lakeward for a Python that"
                + " driver and executors have at the same path, and name it in the option python of"
                + " this catalog, or in PYSPARK_PYTHON in the driver's environment")
            .formatted(table, problem),
        cause);
  }

  /** The error to throw for a CREATE TABLE AS SELECT that failed: Spark drops its table. */
  static LakewardException ofNewTable(String table, Exception error) {
    String message = String.valueOf(error.getMessage());
    String problem = PythonProblems.of(message);
    return problem == null
        ? new LakewardException(
            "%s %s was not created.".formatted(reason(message), table), error)
        : withoutPython(table, problem, error);
  }

  /**
   * The error to throw for a statement that failed. It is Spark's own one if the statement has
   * written nothing.
   *
   * @param written returns the number of records that the statement has in the log
   */
  static LakewardException translated(String table, Exception error, Work<OptionalLong> written) {
    String message = String.valueOf(error.getMessage());
    String problem = PythonProblems.of(message);
    if (problem != null) {
      return withoutPython(table, problem, error);
    }
    OptionalLong records = OptionalLong.empty();
    try {
      records = written.run();
    } catch (LakewardException unknown) {
      error.addSuppressed(unknown);
    }
    if (!message.contains(OF_LAKEWARD) && records.isPresent() && records.getAsLong() == 0) {
      throw LakewardException.unchecked(error);
    }
    return new LakewardException(
        "%s %s".formatted(reason(message), remaining(table, records)), error);
  }

  /** The first sentence of an error: its first line, and the next one if the line ends with a colon. */
  private static String reason(String message) {
    int start = message.indexOf(OF_LAKEWARD);
    String[] lines = message.substring(start < 0 ? 0 : start + OF_LAKEWARD.length()).split("\n");
    String first = lines[0].strip();
    return first.endsWith(":") && lines.length > 1 ? first + " " + lines[1].strip() + "." : first;
  }

  private static String remaining(String table, OptionalLong records) {
    if (records.isEmpty()) {
      return "Some rows of the statement may be in %s already, and they stay.".formatted(table);
    }
    return records.getAsLong() == 0
        ? "The statement has written nothing to %s.".formatted(table)
        : "The log of %s has %d records of the statement, and they stay."
            .formatted(table, records.getAsLong());
  }
}
