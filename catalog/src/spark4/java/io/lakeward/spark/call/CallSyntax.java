package io.lakeward.spark.call;

import org.apache.spark.sql.SparkSessionExtensions;

/** The syntax of CALL, which Spark 4 has itself. */
public final class CallSyntax {

  private CallSyntax() {}

  /** Adds nothing. */
  public static void add(SparkSessionExtensions extensions) {}
}
