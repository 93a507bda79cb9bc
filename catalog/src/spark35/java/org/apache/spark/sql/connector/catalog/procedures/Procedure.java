package org.apache.spark.sql.connector.catalog.procedures;

/** Spark 4's interface of a procedure, which Spark 3.5 lacks. */
public interface Procedure {

  String name();

  String description();
}
