package io.lakeward.spark.call;

import io.lakeward.spark.error.LakewardException;
import java.util.List;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.types.AtomicType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/**
 * Checks that the types of arguments fit their parameters. Spark casts more types, but its errors
 * name the value or the position, and not the argument. So a type that a user cannot intend is
 * refused here.
 */
final class ArgumentTypes {

  private ArgumentTypes() {}

  /**
   * Throws LakewardException, naming the argument, for the first argument that does not fit. {@code
   * argumentTypes} has a field an argument. Positional arguments come first, in the order of the
   * parameters; named ones are marked as such (ProcedureParameter.BY_NAME_METADATA_KEY). Unknown
   * names are left for Spark to report.
   */
  static void check(String procedure, StructType argumentTypes, ProcedureParameter[] parameters)
      throws LakewardException {
    StructField[] arguments = argumentTypes.fields();
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

  private static void check(String procedure, ProcedureParameter parameter, DataType type)
      throws LakewardException {
    if (!fits(type, parameter.dataType())) {
      throw new LakewardException(
          "the argument %s of %s must be %s, not %s"
              .formatted(parameter.name(), procedure, parameter.dataType().sql(), type.sql()));
    }
  }

  private static boolean fits(DataType type, DataType target) {
    if (type.equals(target) || type instanceof NullType) {
      return true;
    }
    if (target instanceof StringType) {
      return type instanceof AtomicType;
    }
    if (target instanceof TimestampType) {
      return type instanceof StringType
          || type instanceof DateType
          || type instanceof TimestampNTZType;
    }
    if (target instanceof MapType targetMap) {
      return type instanceof MapType map
          && fits(map.keyType(), targetMap.keyType())
          && fits(map.valueType(), targetMap.valueType());
    }
    return List.of(type, target).stream().allMatch(NumericType.class::isInstance);
  }
}
