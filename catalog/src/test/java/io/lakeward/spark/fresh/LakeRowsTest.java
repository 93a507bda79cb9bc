package io.lakeward.spark.fresh;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.GeneralScalarExpression;
import org.apache.spark.sql.connector.expressions.LiteralValue;
import org.apache.spark.sql.connector.expressions.filter.And;
import org.apache.spark.sql.connector.expressions.filter.Not;
import org.apache.spark.sql.connector.expressions.filter.Or;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.junit.jupiter.api.Test;

class LakeRowsTest {

  private static final Map<String, DataType> LAKE =
      Map.of("tiny", DataTypes.IntegerType, "text", DataTypes.StringType);
  private static final Expression TINY = Expressions.column("tiny");
  private static final Expression FIVE = new LiteralValue<>((byte) 5, DataTypes.ByteType);
  private static final Expression WIDE_FIVE = new LiteralValue<>(5, DataTypes.IntegerType);
  private static final Expression NULL = new LiteralValue<>(null, DataTypes.ByteType);

  @Test
  void comparisonsWithNarrowLiteralsReachTheLakeWithItsType() {
    for (String name : new String[] {"=", "<>", "<", "<=", ">", ">=", "<=>"}) {
      assertEquals(
          Optional.of(predicate(name, TINY, WIDE_FIVE)), widened(predicate(name, TINY, FIVE)));
    }
    assertEquals(
        Optional.of(predicate("IN", TINY, WIDE_FIVE, NULL)),
        widened(predicate("IN", TINY, FIVE, NULL)));
    Predicate isNull = predicate("IS_NULL", TINY);
    assertEquals(
        Optional.of(new Not(new Or(predicate("=", TINY, WIDE_FIVE), isNull))),
        widened(new Not(new Or(predicate("=", TINY, FIVE), isNull))));
  }

  @Test
  void arithmeticThatOverflowsElsewhereStaysWithSpark() {
    Expression sum = new GeneralScalarExpression("+", new Expression[] {TINY, FIVE});
    assertEquals(Optional.empty(), widened(predicate("=", sum, FIVE)));
    assertEquals(Optional.empty(), widened(predicate("=", Expressions.column("other"), FIVE)));
    assertEquals(
        Optional.empty(),
        widened(new And(predicate("=", TINY, FIVE), predicate("=", sum, FIVE))));
  }

  private static Optional<Predicate> widened(Predicate predicate) {
    return LakeRows.widened(predicate, LAKE);
  }

  private static Predicate predicate(String name, Expression... children) {
    return new Predicate(name, children);
  }
}
