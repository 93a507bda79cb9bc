package org.apache.spark.sql.connector.catalog.procedures;

import org.apache.spark.sql.types.StructType;

/** Spark 4's interface of a procedure before its arguments are checked, which Spark 3.5 lacks. */
public interface UnboundProcedure extends Procedure {

  BoundProcedure bind(StructType inputType);
}
