package io.lakeward.spark.scan;

import io.lakeward.rpc.v1.Condition;
import io.lakeward.rpc.v1.Filter;
import io.lakeward.sys.rpc.v1.Order;
import io.lakeward.sys.rpc.v1.ReadTableRequest;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.connector.expressions.NullOrdering;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownTopN;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Collects the columns, conditions, sort with limit, and aggregates that are pushed down. The
 * service evaluates them exactly, so Spark does not evaluate them again.
 */
public final class SystemScanBuilder
    implements SupportsPushDownRequiredColumns,
        SupportsPushDownV2Filters,
        SupportsPushDownLimit,
        SupportsPushDownTopN,
        SupportsPushDownAggregates {

  private final RowSource source;
  private final ReadTableRequest.Builder request;
  private final FilterTranslator filters;
  private final ConditionTranslator conditions;
  private final AggregateTranslator aggregates;
  private final PushDownBudget budget = new PushDownBudget();
  private final List<Predicate> pushed = new ArrayList<>();
  private final StructType whole;
  private StructType required;
  private boolean aggregated;

  /** {@code request} names the table; {@code schema} has all its columns. */
  public SystemScanBuilder(RowSource source, ReadTableRequest request, StructType schema) {
    this.source = source;
    this.request = request.toBuilder();
    this.filters = new FilterTranslator(schema);
    this.conditions = new ConditionTranslator(filters);
    this.aggregates = new AggregateTranslator(filters);
    this.whole = schema;
    this.required = schema;
  }

  @Override
  public Predicate[] pushPredicates(Predicate[] predicates) {
    List<Predicate> left = new ArrayList<>();
    for (Predicate predicate : predicates) {
      (push(predicate) ? pushed : left).add(predicate);
    }
    return left.toArray(Predicate[]::new);
  }

  private boolean push(Predicate predicate) {
    Optional<Filter> filter = filters.translate(predicate);
    if (filter.isPresent()) {
      Optional<Filter> fitting = filter.filter(budget::takes);
      fitting.ifPresent(request::addFilters);
      return fitting.isPresent();
    }
    Optional<Condition> condition = conditions.translate(predicate).filter(budget::takes);
    condition.ifPresent(request::addConditions);
    return condition.isPresent();
  }

  @Override
  public Predicate[] pushedPredicates() {
    return pushed.toArray(Predicate[]::new);
  }

  @Override
  public boolean pushLimit(int limit) {
    request.setLimit(limit);
    return true;
  }

  @Override
  public boolean pushTopN(SortOrder[] orders, int limit) {
    if (aggregated) {
      return false;
    }
    List<Order> keys = new ArrayList<>();
    for (SortOrder order : orders) {
      Optional<StructField> field = filters.comparable(order.expression());
      if (field.isEmpty()) {
        return false;
      }
      keys.add(
          Order.newBuilder()
              .setColumn(field.get().name())
              .setDescending(order.direction() == SortDirection.DESCENDING)
              .setNullsFirst(order.nullOrdering() == NullOrdering.NULLS_FIRST)
              .build());
    }
    request.addAllOrder(keys).setLimit(limit);
    return true;
  }

  @Override
  public boolean isPartiallyPushed() {
    return false;
  }

  @Override
  public boolean supportCompletePushDown(Aggregation aggregation) {
    return aggregates.translate(aggregation).isPresent();
  }

  @Override
  public boolean pushAggregation(Aggregation aggregation) {
    Optional<AggregateTranslator.Pushed> translated = aggregates.translate(aggregation);
    if (translated.isEmpty()) {
      return false;
    }
    AggregateTranslator.Pushed answer = translated.get();
    request.addAllGroupBy(answer.groupBy()).addAllAggregates(answer.aggregates());
    required = answer.schema();
    aggregated = true;
    return true;
  }

  /** Keeps all columns of an aggregation, which Spark requires. */
  @Override
  public void pruneColumns(StructType requiredSchema) {
    if (!aggregated) {
      required = requiredSchema;
    }
  }

  @Override
  public Scan build() {
    return aggregated
        ? SystemScan.ofAggregates(source, request.build(), required)
        : SystemScan.ofRows(source, request.build(), required, whole);
  }
}
