package io.lakeward.spark.scan;

import io.lakeward.rpc.v1.Literal;
import io.lakeward.spark.service.Literals;
import io.lakeward.rpc.v1.Filter.Operator;
import io.lakeward.rpc.v1.Filter;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Translates Spark's predicates to filters of the service, which evaluates them with Spark's
 * meaning (tiering/model/reading/matching.py: NULL matches nothing, NaN is the greatest, strings
 * compare by their bytes). Only comparisons of a column with literals of the same type are
 * translated, because only these have exactly the same meaning. Spark evaluates all others.
 */
final class FilterTranslator {

  private static final Map<String, Operator> COMPARISONS =
      Map.of(
          "=", Operator.EQUAL,
          "<>", Operator.NOT_EQUAL,
          "<", Operator.LESS,
          "<=", Operator.LESS_OR_EQUAL,
          ">", Operator.GREATER,
          ">=", Operator.GREATER_OR_EQUAL,
          "STARTS_WITH", Operator.STARTS_WITH,
          "ENDS_WITH", Operator.ENDS_WITH,
          "CONTAINS", Operator.CONTAINS);

  /** The equivalent comparison with exchanged sides. */
  private static final Map<String, String> MIRRORED =
      Map.of("=", "=", "<>", "<>", "<", ">", "<=", ">=", ">", "<", ">=", "<=");

  private static final List<DataType> COMPARABLE =
      List.of(
          DataTypes.StringType,
          DataTypes.LongType,
          DataTypes.IntegerType,
          DataTypes.ShortType,
          DataTypes.ByteType,
          DataTypes.DoubleType,
          DataTypes.BooleanType,
          DataTypes.DateType,
          DataTypes.TimestampType);

  private final StructType schema;

  FilterTranslator(StructType schema) {
    this.schema = schema;
  }

  /**
   * The filter that holds for exactly the rows for which {@code predicate} is true, if there is
   * one.
   */
  Optional<Filter> translate(Predicate predicate) {
    Expression[] children = predicate.children();
    return switch (predicate.name()) {
      case "IS_NULL" ->
          column(children[0]).map(field -> filter(field, Operator.IS_NULL, List.of()));
      case "IS_NOT_NULL" ->
          column(children[0]).map(field -> filter(field, Operator.IS_NOT_NULL, List.of()));
      case "IN" -> membership(children);
      case "NOT" -> denial(children[0]);
      default -> comparison(predicate.name(), children);
    };
  }

  private Optional<Filter> comparison(String name, Expression[] children) {
    if (!COMPARISONS.containsKey(name) || children.length != 2) {
      return Optional.empty();
    }
    boolean mirrored = column(children[0]).isEmpty() && MIRRORED.containsKey(name);
    Expression left = children[mirrored ? 1 : 0];
    Expression right = children[mirrored ? 0 : 1];
    Operator operator = COMPARISONS.get(mirrored ? MIRRORED.get(name) : name);
    return comparable(left)
        .flatMap(
            field ->
                literal(right, field.dataType())
                    .map(value -> filter(field, operator, List.of(value))));
  }

  /** An IN. NULL members are sent, too: with one, `c IN (a, NULL)` is unknown instead of false. */
  private Optional<Filter> membership(Expression[] children) {
    List<Expression> members = Arrays.stream(children).skip(1).toList();
    return comparable(children[0])
        .flatMap(
            field -> {
              List<Literal> values =
                  members.stream()
                      .flatMap(member -> member(member, field.dataType()).stream())
                      .toList();
              boolean complete = values.size() == members.size() && !values.isEmpty();
              return complete ? Optional.of(filter(field, Operator.IN, values)) : Optional.empty();
            });
  }

  /** Spark writes `c <> x` as NOT(c = x), and `NOT c` as NOT(c = true). */
  private Optional<Filter> denial(Expression denied) {
    return denied instanceof Predicate inner && inner.name().equals("=")
        ? comparison("<>", inner.children())
        : Optional.empty();
  }

  /** A column whose values the service compares as Spark does. */
  Optional<StructField> comparable(Expression expression) {
    return column(expression).filter(field -> COMPARABLE.contains(field.dataType()));
  }

  /** A column of the table itself, not a field inside one. */
  Optional<StructField> column(Expression expression) {
    if (expression instanceof NamedReference reference && reference.fieldNames().length == 1) {
      String name = reference.fieldNames()[0];
      return Arrays.stream(schema.fields()).filter(field -> field.name().equals(name)).findFirst();
    }
    return Optional.empty();
  }

  private static Optional<Literal> literal(Expression expression, DataType type) {
    if (expression instanceof org.apache.spark.sql.connector.expressions.Literal<?> literal
        && literal.value() != null
        && Objects.equals(literal.dataType(), type)) {
      return Literals.of(literal.value(), type);
    }
    return Optional.empty();
  }

  private static Optional<Literal> member(Expression expression, DataType type) {
    return isNull(expression)
        ? Optional.of(Literal.getDefaultInstance())
        : literal(expression, type);
  }

  static boolean isNull(Expression expression) {
    return expression instanceof org.apache.spark.sql.connector.expressions.Literal<?> literal
        && literal.value() == null;
  }

  static Filter filter(StructField field, Operator operator, List<Literal> values) {
    return Filter.newBuilder()
        .setColumn(field.name())
        .setOperator(operator)
        .addAllValues(values)
        .build();
  }
}
