package io.lakeward.spark.service;

import io.lakeward.rpc.v1.Literal;
import io.lakeward.rpc.v1.NumbersByText;
import io.lakeward.spark.version.SparkClasses;
import java.util.Optional;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.TimestampType;

/** Converts Spark's internal values to literals of the service. */
public final class Literals {

  private Literals() {}

  /**
   * The literal of a value that is not null; empty for a type without literals, and for a map with
   * a NULL in it.
   */
  public static Optional<Literal> of(Object value, DataType type) {
    Literal.Builder literal = Literal.newBuilder();
    if (SparkClasses.isPlainString(type)) {
      literal.setText(value.toString());
    } else if (type instanceof LongType
        || type instanceof IntegerType
        || type instanceof ShortType
        || type instanceof ByteType) {
      literal.setNumber(((Number) value).longValue());
    } else if (type instanceof DateType) {
      literal.setNumber(((Number) value).longValue()).setIsDate(true);
    } else if (type instanceof DoubleType || type instanceof FloatType) {
      literal.setReal(((Number) value).doubleValue());
    } else if (type instanceof BooleanType) {
      literal.setTruth((Boolean) value);
    } else if (type instanceof TimestampType) {
      literal.setTimestampUs((Long) value);
    } else if (type instanceof MapType map
        && map.keyType() instanceof StringType
        && map.valueType() instanceof LongType) {
      return numbers((MapData) value).map(numbers -> literal.setNumbers(numbers).build());
    } else {
      return Optional.empty();
    }
    return Optional.of(literal.build());
  }

  private static Optional<NumbersByText> numbers(MapData map) {
    NumbersByText.Builder numbers = NumbersByText.newBuilder();
    for (int i = 0; i < map.numElements(); i++) {
      if (map.valueArray().isNullAt(i)) {
        return Optional.empty();
      }
      // Not getUTF8String: its type has a supertype that is not on the class path here.
      String key = map.keyArray().get(i, DataTypes.StringType).toString();
      numbers.putNumbers(key, map.valueArray().getLong(i));
    }
    return Optional.of(numbers.build());
  }
}
