package io.lakeward.spark.scan;

import io.lakeward.rpc.v1.Condition;
import io.lakeward.rpc.v1.Conditions;
import io.lakeward.rpc.v1.Filter.Operator;
import io.lakeward.rpc.v1.Filter;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.StructType;

/**
 * Translates Spark's predicates joined by AND, OR and NOT to conditions of the service, which
 * distinguishes unknown from false as Spark does (tiering/model/reading/matching.py). A predicate is
 * translated as a whole or not at all.
 */
public final class ConditionTranslator {

  /**
   * Deepest nesting that is translated. Statements that people write are not deeper. The service's
   * own limit is higher (tiering/wire/conditions.py).
   */
  private static final int DEEPEST = 30;

  private final FilterTranslator filters;

  /** {@code schema} has all columns of the table. */
  public ConditionTranslator(StructType schema) {
    this(new FilterTranslator(schema));
  }

  ConditionTranslator(FilterTranslator filters) {
    this.filters = filters;
  }

  /** The condition that is true, false or unknown for the same rows, if there is one. */
  public Optional<Condition> translate(Predicate predicate) {
    return translate(predicate, DEEPEST);
  }

  private Optional<Condition> translate(Expression expression, int depth) {
    if (depth == 0 || !(expression instanceof Predicate predicate)) {
      return Optional.empty();
    }
    return switch (predicate.name()) {
      case "AND" -> all(predicate.children(), depth).map(parts -> joined(parts, true));
      case "OR" -> all(predicate.children(), depth).map(parts -> joined(parts, false));
      case "NOT" -> translate(predicate.children()[0], depth - 1).map(ConditionTranslator::negated);
      case "<=>" -> equality(predicate.children());
      default -> filters.translate(predicate).map(ConditionTranslator::of);
    };
  }

  private Optional<List<Condition>> all(Expression[] children, int depth) {
    List<Condition> parts =
        Arrays.stream(children).flatMap(child -> translate(child, depth - 1).stream()).toList();
    return parts.size() == children.length ? Optional.of(parts) : Optional.empty();
  }

  /** `c <=> x` is never unknown: it is `c IS NOT NULL AND c = x`, or `c IS NULL` for NULL. */
  private Optional<Condition> equality(Expression[] children) {
    boolean mirrored = filters.column(children[0]).isEmpty();
    Expression column = children[mirrored ? 1 : 0];
    Expression value = children[mirrored ? 0 : 1];
    if (FilterTranslator.isNull(value)) {
      return filters
          .column(column)
          .map(field -> of(FilterTranslator.filter(field, Operator.IS_NULL, List.of())));
    }
    return filters
        .translate(new Predicate("=", new Expression[] {column, value}))
        .map(equal -> joined(List.of(of(isNotNull(equal)), of(equal)), true));
  }

  private static Filter isNotNull(Filter filter) {
    return filter.toBuilder().setOperator(Operator.IS_NOT_NULL).clearValues().build();
  }

  private static Condition of(Filter filter) {
    return Condition.newBuilder().setFilter(filter).build();
  }

  private static Condition negated(Condition part) {
    return Condition.newBuilder().setNegated(part).build();
  }

  private static Condition joined(List<Condition> parts, boolean all) {
    Conditions joined = Conditions.newBuilder().addAllConditions(parts).build();
    return all
        ? Condition.newBuilder().setAll(joined).build()
        : Condition.newBuilder().setAny(joined).build();
  }
}
