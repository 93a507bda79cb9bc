package io.lakeward.spark;

import io.lakeward.sys.rpc.v1.Condition;
import io.lakeward.sys.rpc.v1.Filter;
import io.lakeward.sys.rpc.v1.Order;
import io.lakeward.sys.rpc.v1.ReadTableRequest;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
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
 * Collects what the service can do in Spark's stead: columns, conditions, sort with limit,
 * aggregates. It does them exactly, so Spark need not. An older service is asked for nothing that
 * it did not name among its capabilities.
 */
final class SystemScanBuilder
    implements SupportsPushDownRequiredColumns,
        SupportsPushDownV2Filters,
        SupportsPushDownLimit,
        SupportsPushDownTopN,
        SupportsPushDownAggregates {

  private static final String CONDITIONS = "conditions";
  private static final String ORDER = "order";
  private static final String AGGREGATES = "aggregates";

  private final RowSource source;
  private final ReadTableRequest.Builder request;
  private final Filters filters;
  private final Conditions conditions;
  private final Aggregates aggregates;
  private final Set<String> capabilities;
  private final PushDownBudget budget = new PushDownBudget();
  private final List<Predicate> pushed = new ArrayList<>();
  private final StructType whole;
  private StructType wanted;
  private boolean aggregated;

  /** {@code request} names the table; {@code schema} has all its columns. */
  SystemScanBuilder(
      RowSource source, ReadTableRequest request, StructType schema, Set<String> capabilities) {
    this.source = source;
    this.request = request.toBuilder();
    this.filters = new Filters(schema, capabilities.contains(CONDITIONS));
    this.conditions = new Conditions(filters);
    this.aggregates = new Aggregates(filters);
    this.capabilities = capabilities;
    this.whole = schema;
    this.wanted = schema;
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
    if (filter.isPresent() || !capabilities.contains(CONDITIONS)) {
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
    if (!capabilities.contains(ORDER) || aggregated) {
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
    return capabilities.contains(AGGREGATES) && aggregates.translate(aggregation).isPresent();
  }

  @Override
  public boolean pushAggregation(Aggregation aggregation) {
    if (!supportCompletePushDown(aggregation)) {
      return false;
    }
    Aggregates.Pushed answer = aggregates.translate(aggregation).orElseThrow();
    request.addAllGroupBy(answer.groupBy()).addAllAggregates(answer.aggregates());
    wanted = answer.schema();
    aggregated = true;
    return true;
  }

  /** Of an aggregation Spark wants all columns. */
  @Override
  public void pruneColumns(StructType requiredSchema) {
    if (!aggregated) {
      wanted = requiredSchema;
    }
  }

  @Override
  public Scan build() {
    return aggregated
        ? SystemScan.ofAggregates(source, request.build(), wanted)
        : SystemScan.ofRows(source, request.build(), wanted, whole);
  }
}
