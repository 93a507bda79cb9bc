package io.lakeward.spark.scan;

import io.lakeward.sys.rpc.v1.Aggregate;
import io.lakeward.sys.rpc.v1.Aggregate.Function;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Translates COUNT, MIN and MAX, of all rows or by plain columns, to aggregates of the service
 * (sys_tables/query/aggregates.py). An aggregation is translated as a whole or not at all.
 */
final class AggregateTranslator {

  /** The aggregates to request, and the columns of the answer. */
  record Pushed(List<String> groupBy, List<Aggregate> aggregates, StructType schema) {}

  private final FilterTranslator columns;

  AggregateTranslator(FilterTranslator columns) {
    this.columns = columns;
  }

  /** The aggregation for the service, if the service has all of its functions. */
  Optional<Pushed> translate(Aggregation aggregation) {
    List<StructField> fields = new ArrayList<>();
    List<String> groupBy = new ArrayList<>();
    for (Expression expression : aggregation.groupByExpressions()) {
      Optional<StructField> field =
          columns.comparable(expression).filter(AggregateTranslator::isExact);
      if (field.isEmpty()) {
        return Optional.empty();
      }
      groupBy.add(field.get().name());
      fields.add(field.get());
    }
    List<Aggregate> aggregates = new ArrayList<>();
    for (AggregateFunc function : aggregation.aggregateExpressions()) {
      Optional<Aggregate> aggregate = aggregate(function, fields);
      if (aggregate.isEmpty()) {
        return Optional.empty();
      }
      aggregates.add(aggregate.get());
    }
    return Optional.of(new Pushed(groupBy, aggregates, DataTypes.createStructType(fields)));
  }

  /** The service's aggregate; its column is added to {@code answer}. */
  private Optional<Aggregate> aggregate(AggregateFunc function, List<StructField> answer) {
    if (function instanceof CountStar) {
      answer.add(DataTypes.createStructField("count(*)", DataTypes.LongType, false));
      return Optional.of(Aggregate.newBuilder().setFunction(Function.COUNT).build());
    }
    if (function instanceof Count count && !count.isDistinct()) {
      return columns
          .column(count.column())
          .map(field -> of(field, Function.COUNT, DataTypes.LongType, answer));
    }
    if (function instanceof Min min) {
      return columns
          .comparable(min.column())
          .map(field -> of(field, Function.MIN, field.dataType(), answer));
    }
    if (function instanceof Max max) {
      return columns
          .comparable(max.column())
          .map(field -> of(field, Function.MAX, field.dataType(), answer));
    }
    return Optional.empty();
  }

  private static Aggregate of(
      StructField field, Function function, DataType type, List<StructField> answer) {
    String name = function.name().toLowerCase(Locale.ROOT) + "(" + field.name() + ")";
    answer.add(DataTypes.createStructField(name, type, function != Function.COUNT));
    return Aggregate.newBuilder().setFunction(function).setColumn(field.name()).build();
  }

  private static boolean isExact(StructField field) {
    return !field.dataType().equals(DataTypes.DoubleType);
  }
}
