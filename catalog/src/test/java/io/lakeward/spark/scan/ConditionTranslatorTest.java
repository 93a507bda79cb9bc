package io.lakeward.spark.scan;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.lakeward.rpc.v1.Condition;
import io.lakeward.rpc.v1.Filter;
import io.lakeward.rpc.v1.Filter.Operator;
import io.lakeward.rpc.v1.Literal;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.LiteralValue;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.Test;

class ConditionTranslatorTest {

  private static final StructType SCHEMA =
      new StructType()
          .add("day", DataTypes.DateType)
          .add("tiny", DataTypes.ByteType)
          .add("small", DataTypes.ShortType)
          .add("number", DataTypes.IntegerType);

  /** Days of the year 1, of 1969, 1970 and 9999, and Spark's first and last date. */
  private static final List<Integer> DAYS =
      List.of(-719_162, -1, 0, 2_932_896, Integer.MIN_VALUE, Integer.MAX_VALUE);

  @Test
  void aDateIsSentAsItsDays() {
    for (int days : DAYS) {
      Expression date = literal(days, DataTypes.DateType);
      assertEquals(
          filter("day", Operator.EQUAL, day(days)), translated("=", column("day"), date));
      assertEquals(
          filter("day", Operator.NOT_EQUAL, day(days)), translated("<>", date, column("day")));
      assertEquals(
          filter("day", Operator.GREATER_OR_EQUAL, day(days)),
          translated("<=", date, column("day")));
    }
  }

  @Test
  void narrowIntegersAreSentAsNumbers() {
    for (byte value : new byte[] {Byte.MIN_VALUE, 0, Byte.MAX_VALUE}) {
      assertEquals(
          filter("tiny", Operator.LESS, number(value)),
          translated("<", column("tiny"), literal(value, DataTypes.ByteType)));
    }
    for (short value : new short[] {Short.MIN_VALUE, 0, Short.MAX_VALUE}) {
      assertEquals(
          filter("small", Operator.GREATER, number(value)),
          translated("<", literal(value, DataTypes.ShortType), column("small")));
    }
  }

  @Test
  void membersAndNullsOfDatesAreSent() {
    assertEquals(
        filter("day", Operator.IN, day(-1), Literal.getDefaultInstance()),
        translated(
            "IN",
            column("day"),
            literal(-1, DataTypes.DateType),
            literal(null, DataTypes.DateType)));
    assertEquals(filter("day", Operator.IS_NULL), translated("IS_NULL", column("day")));
    Expression[] operands = {column("day"), literal(3, DataTypes.DateType)};
    assertEquals(
        filter("day", Operator.IN, day(3))
            .map(member -> Condition.newBuilder().setNegated(member).build()),
        translated("NOT", new Predicate("IN", operands)));
  }

  @Test
  void aLiteralOfAnotherTypeThanItsColumnStaysWithSpark() {
    assertEquals(
        Optional.empty(), translated("=", column("day"), literal(5, DataTypes.IntegerType)));
    assertEquals(
        Optional.empty(), translated("=", column("number"), literal(5, DataTypes.DateType)));
    assertEquals(
        Optional.empty(), translated("=", column("tiny"), literal(5, DataTypes.IntegerType)));
    assertEquals(
        Optional.empty(),
        translated(
            "IN",
            column("day"),
            literal(5, DataTypes.DateType),
            literal(5L, DataTypes.LongType)));
  }

  private static Optional<Condition> translated(String name, Expression... children) {
    return new ConditionTranslator(SCHEMA).translate(new Predicate(name, children));
  }

  private static Optional<Condition> filter(String column, Operator operator, Literal... values) {
    Filter filter =
        Filter.newBuilder()
            .setColumn(column)
            .setOperator(operator)
            .addAllValues(Arrays.asList(values))
            .build();
    return Optional.of(Condition.newBuilder().setFilter(filter).build());
  }

  private static Literal day(long days) {
    return number(days).toBuilder().setIsDate(true).build();
  }

  private static Literal number(long value) {
    return Literal.newBuilder().setNumber(value).build();
  }

  private static Expression column(String name) {
    return Expressions.column(name);
  }

  private static <T> Expression literal(T value, DataType type) {
    return new LiteralValue<>(value, type);
  }
}
