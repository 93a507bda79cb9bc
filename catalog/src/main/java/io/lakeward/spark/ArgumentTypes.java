package io.lakeward.spark;

import java.util.List;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.types.AtomicType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/**
 * Which types of argument a parameter takes. Spark would cast more, but where it cannot it names
 * the value or the position, not the argument; so what could not be meant is refused here.
 */
final class ArgumentTypes {

  private ArgumentTypes() {}

  /**
   * Throws LakewardException, naming the argument, for the first of the {@code given} that does not
   * fit. Positional arguments come first, in the order of the parameters; named ones are marked as
   * such (ProcedureParameter.BY_NAME_METADATA_KEY). Unknown names are left for Spark to report.
   */
  static void check(String procedure, StructType given, ProcedureParameter[] parameters)
      throws LakewardException {
    StructField[] arguments = given.fields();
    for (int i = 0; i < arguments.length; i++) {
      boolean named = arguments[i].metadata().contains(ProcedureParameter.BY_NAME_METADATA_KEY);
      String name = named ? arguments[i].name() : i < parameters.length ? parameters[i].name() : "";
      for (ProcedureParameter parameter : parameters) {
        if (parameter.name().equalsIgnoreCase(name)) {
          check(procedure, parameter, arguments[i].dataType());
        }
      }
    }
  }

  private static void check(String procedure, ProcedureParameter parameter, DataType given)
      throws LakewardException {
    if (!fits(given, parameter.dataType())) {
      throw new LakewardException(
          "the argument %s of %s must be %s, not %s"
              .formatted(parameter.name(), procedure, parameter.dataType().sql(), given.sql()));
    }
  }

  private static boolean fits(DataType given, DataType wanted) {
    if (given.equals(wanted) || given instanceof NullType) {
      return true;
    }
    if (wanted instanceof StringType) {
      return given instanceof AtomicType;
    }
    if (wanted instanceof TimestampType) {
      return given instanceof StringType
          || given instanceof DateType
          || given instanceof TimestampNTZType;
    }
    return List.of(given, wanted).stream().allMatch(NumericType.class::isInstance);
  }
}
