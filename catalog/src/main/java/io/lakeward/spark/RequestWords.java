package io.lakeward.spark;

import io.lakeward.sys.rpc.v1.Condition;
import io.lakeward.sys.rpc.v1.Conditions;
import io.lakeward.sys.rpc.v1.Filter;
import io.lakeward.sys.rpc.v1.Order;
import io.lakeward.sys.rpc.v1.ReadTableRequest;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import java.util.stream.Collectors;

/** What the service is asked for, as EXPLAIN shows it; without the values of conditions. */
final class RequestWords {

  private RequestWords() {}

  static String of(ReadTableRequest request) {
    List<String> parts = new ArrayList<>();
    say(parts, "filters", request.getFiltersList(), RequestWords::filter);
    say(parts, "conditions", request.getConditionsList(), RequestWords::condition);
    say(parts, "group by", request.getGroupByList(), column -> column);
    say(parts, "order", request.getOrderList(), RequestWords::order);
    if (request.hasLimit()) {
      parts.add("limit: " + request.getLimit());
    }
    String table = request.getNamespace() + "." + request.getName();
    return parts.isEmpty() ? table : table + " [" + String.join("; ", parts) + "]";
  }

  private static <T> void say(
      List<String> parts, String what, List<T> each, Function<T, String> words) {
    if (!each.isEmpty()) {
      parts.add(what + ": " + joined(each, words, ", "));
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
    return joined(conditions.getConditionsList(), RequestWords::condition, operator);
  }

  private static String order(Order order) {
    return order.getColumn() + (order.getDescending() ? " DESC" : "");
  }

  private static <T> String joined(List<T> each, Function<T, String> words, String separator) {
    return each.stream().map(words).collect(Collectors.joining(separator));
  }
}
