package io.lakeward.spark.scan;

import io.lakeward.sys.rpc.v1.Condition;
import io.lakeward.sys.rpc.v1.Filter;

/**
 * Limits the conditions that one read sends, below the limits of the service
 * (sys_tables/server/wire.py). Spark evaluates what does not fit, such as a very long IN list.
 */
final class PushDownBudget {

  private static final int MAX_PREDICATES = 500;
  private static final int MAX_VALUES = 5_000;
  private static final int MAX_BYTES = 512 << 10;

  private int predicates = MAX_PREDICATES;
  private int values = MAX_VALUES;
  private int bytes = MAX_BYTES;

  /** Whether the filter fits; if it does, the budget shrinks by it. */
  boolean takes(Filter filter) {
    return takes(1, filter.getValuesCount(), filter.getSerializedSize());
  }

  /** Whether the condition with all its parts fits; if it does, the budget shrinks by it. */
  boolean takes(Condition condition) {
    return takes(predicates(condition), values(condition), condition.getSerializedSize());
  }

  private boolean takes(int morePredicates, int moreValues, int moreBytes) {
    if (morePredicates > predicates || moreValues > values || moreBytes > bytes) {
      return false;
    }
    predicates -= morePredicates;
    values -= moreValues;
    bytes -= moreBytes;
    return true;
  }

  private static int predicates(Condition condition) {
    return 1
        + switch (condition.getKindCase()) {
          case ALL ->
              condition.getAll().getConditionsList().stream()
                  .mapToInt(PushDownBudget::predicates)
                  .sum();
          case ANY ->
              condition.getAny().getConditionsList().stream()
                  .mapToInt(PushDownBudget::predicates)
                  .sum();
          case NEGATED -> predicates(condition.getNegated());
          default -> 0;
        };
  }

  private static int values(Condition condition) {
    return switch (condition.getKindCase()) {
      case FILTER -> condition.getFilter().getValuesCount();
      case ALL ->
          condition.getAll().getConditionsList().stream().mapToInt(PushDownBudget::values).sum();
      case ANY ->
          condition.getAny().getConditionsList().stream().mapToInt(PushDownBudget::values).sum();
      case NEGATED -> values(condition.getNegated());
      default -> 0;
    };
  }
}
