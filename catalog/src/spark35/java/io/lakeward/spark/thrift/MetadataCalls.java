package io.lakeward.spark.thrift;

/**
 * The metadata calls of JDBC. The Thrift server of Spark 3.5 answers them from its built-in
 * catalog.
 */
public final class MetadataCalls {

  private MetadataCalls() {}

  /** Replaces nothing. */
  public static void install() {}
}
