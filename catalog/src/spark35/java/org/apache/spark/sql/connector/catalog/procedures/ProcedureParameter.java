package org.apache.spark.sql.connector.catalog.procedures;

import org.apache.spark.sql.types.DataType;

/**
 * The part of Spark 4's class that Lakeward uses, which Spark 3.5 lacks.
 *
 * @param defaultValue a literal of SQL; null for a required parameter
 */
public record ProcedureParameter(
    String name, DataType dataType, String comment, String defaultValue) {

  /** The key in the metadata of a column that marks an argument with a name. */
  public static final String BY_NAME_METADATA_KEY = "BY_NAME";

  /** Begins a parameter without comment and default value. */
  public static Builder in(String name, DataType dataType) {
    return new Builder(new ProcedureParameter(name, dataType, null, null));
  }

  /** A parameter with what has been set. */
  public record Builder(ProcedureParameter build) {

    /** Sets the comment. */
    public Builder comment(String comment) {
      return new Builder(
          new ProcedureParameter(build.name, build.dataType, comment, build.defaultValue));
    }

    /** Sets the default value, a literal of SQL. */
    public Builder defaultValue(String sql) {
      return new Builder(new ProcedureParameter(build.name, build.dataType, build.comment, sql));
    }
  }
}
