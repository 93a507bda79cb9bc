package org.apache.spark.sql.connector.catalog.procedures;

import java.util.Iterator;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.Scan;

/** Spark 4's interface of a procedure that can be called, which Spark 3.5 lacks. */
public interface BoundProcedure extends Procedure {

  ProcedureParameter[] parameters();

  boolean isDeterministic();

  Iterator<Scan> call(InternalRow input);
}
