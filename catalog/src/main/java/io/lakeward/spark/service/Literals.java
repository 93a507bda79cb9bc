package io.lakeward.spark.service;

import io.lakeward.sys.rpc.v1.Literal;
import java.util.Optional;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.TimestampType;

/** Converts Spark's internal values to literals of the service. */
public final class Literals {

  private Literals() {}

  /** The literal of a value that is not null; empty for a type without literals. */
  public static Optional<Literal> of(Object value, DataType type) {
    Literal.Builder literal = Literal.newBuilder();
    if (type instanceof StringType string && string.isUTF8BinaryCollation()) {
      literal.setText(value.toString());
    } else if (type instanceof LongType
        || type instanceof IntegerType
        || type instanceof ShortType
        || type instanceof ByteType) {
      literal.setNumber(((Number) value).longValue());
    } else if (type instanceof DoubleType || type instanceof FloatType) {
      literal.setReal(((Number) value).doubleValue());
    } else if (type instanceof BooleanType) {
      literal.setTruth((Boolean) value);
    } else if (type instanceof TimestampType) {
      literal.setTimestampUs((Long) value);
    } else {
      return Optional.empty();
    }
    return Optional.of(literal.build());
  }
}
