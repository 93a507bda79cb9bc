package io.lakeward.spark.scan;

import io.lakeward.rpc.v1.Condition;
import io.lakeward.rpc.v1.Conditions;
import io.lakeward.rpc.v1.Filter;
import io.lakeward.sys.rpc.v1.Order;
import io.lakeward.sys.rpc.v1.ReadTableRequest;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import java.util.stream.Collectors;

/** A read request as EXPLAIN shows it, without the values of conditions. */
final class ReadRequestText {

  private ReadRequestText() {}

  static String of(ReadTableRequest request) {
    List<String> parts = new ArrayList<>();
    add(parts, "filters", request.getFiltersList(), ReadRequestText::filter);
    add(parts, "conditions", request.getConditionsList(), ReadRequestText::condition);
    add(parts, "group by", request.getGroupByList(), column -> column);
    add(parts, "order", request.getOrderList(), ReadRequestText::order);
    if (request.hasLimit()) {
      parts.add("limit: " + request.getLimit());
    }
    String table = request.getNamespace() + "." + request.getName();
    return parts.isEmpty() ? table : table + " [" + String.join("; ", parts) + "]";
  }

  private static <T> void add(
      List<String> parts, String title, List<T> items, Function<T, String> text) {
    if (!items.isEmpty()) {
      parts.add(title + ": " + joined(items, text, ", "));
    }
  }

  private static String filter(Filter filter) {
    return filter.getColumn() + " " + filter.getOperator();
  }

  private static String condition(Condition condition) {
    return switch (condition.getKindCase()) {
      case FILTER -> filter(condition.getFilter());
      case ALL -> "(" + parts(condition.getAll(), " AND ") + ")";
      case ANY -> "(" + parts(condition.getAny(), " OR ") + ")";
      case NEGATED -> "NOT " + condition(condition.getNegated());
      case KIND_NOT_SET -> "?";
    };
  }

  private static String parts(Conditions conditions, String operator) {
    return joined(conditions.getConditionsList(), ReadRequestText::condition, operator);
  }

  private static String order(Order order) {
    return order.getColumn() + (order.getDescending() ? " DESC" : "");
  }

  private static <T> String joined(List<T> items, Function<T, String> text, String separator) {
    return items.stream().map(text).collect(Collectors.joining(separator));
  }
}
