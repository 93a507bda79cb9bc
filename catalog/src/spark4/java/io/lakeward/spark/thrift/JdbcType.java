package io.lakeward.spark.thrift;

import java.sql.Types;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.CharType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.types.VarcharType;

/**
 * A type of Spark in words of JDBC. {@code number}: of {@link Types}, as Spark's own Thrift server
 * chooses it. {@code size}: decimal digits or characters; {@code scale}: digits after the point;
 * {@code radix}: 10 for numbers. Null where JDBC has no value.
 */
record JdbcType(int number, Integer size, Integer scale, Integer radix) {

  static JdbcType of(DataType type) {
    if (type instanceof DecimalType decimal) {
      return numeric(Types.DECIMAL, decimal.precision(), decimal.scale());
    }
    if (type instanceof CharType characters) {
      return sized(Types.CHAR, characters.length());
    }
    if (type instanceof VarcharType characters) {
      return sized(Types.VARCHAR, characters.length());
    }
    return isNumber(type) ? ofNumber(type) : ofOther(type);
  }

  private static boolean isNumber(DataType type) {
    return type instanceof ByteType
        || type instanceof ShortType
        || type instanceof IntegerType
        || type instanceof LongType
        || type instanceof FloatType
        || type instanceof DoubleType;
  }

  private static JdbcType ofNumber(DataType type) {
    if (type instanceof ByteType) {
      return numeric(Types.TINYINT, 3, 0);
    }
    if (type instanceof ShortType) {
      return numeric(Types.SMALLINT, 5, 0);
    }
    if (type instanceof IntegerType) {
      return numeric(Types.INTEGER, 10, 0);
    }
    if (type instanceof LongType) {
      return numeric(Types.BIGINT, 19, 0);
    }
    return type instanceof FloatType
        ? numeric(Types.FLOAT, 7, 7)
        : numeric(Types.DOUBLE, 15, 15);
  }

  private static JdbcType ofOther(DataType type) {
    if (type instanceof StringType) {
      return sized(Types.VARCHAR, Integer.MAX_VALUE);
    }
    if (type instanceof BinaryType) {
      return sized(Types.BINARY, Integer.MAX_VALUE);
    }
    if (type instanceof BooleanType) {
      return sized(Types.BOOLEAN, 1);
    }
    if (type instanceof DateType) {
      return sized(Types.DATE, "2013-01-01".length());
    }
    if (type instanceof TimestampType || type instanceof TimestampNTZType) {
      return new JdbcType(Types.TIMESTAMP, "2013-01-01 00:00:00.000000".length(), 6, null);
    }
    return new JdbcType(ofParts(type), null, null, null);
  }

  private static int ofParts(DataType type) {
    if (type instanceof ArrayType) {
      return Types.ARRAY;
    }
    if (type instanceof StructType) {
      return Types.STRUCT;
    }
    return type instanceof MapType ? Types.JAVA_OBJECT : Types.OTHER;
  }

  private static JdbcType numeric(int number, int size, int scale) {
    return new JdbcType(number, size, scale, 10);
  }

  private static JdbcType sized(int number, int size) {
    return new JdbcType(number, size, null, null);
  }
}
