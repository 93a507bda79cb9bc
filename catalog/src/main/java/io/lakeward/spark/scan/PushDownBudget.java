package io.lakeward.spark.scan;

import io.lakeward.rpc.v1.Condition;
import io.lakeward.rpc.v1.Filter;
import java.util.List;
import java.util.stream.Stream;

/**
 * Limits the conditions that one read sends, below the limits of the service
 * (tiering/wire/conditions.py). Spark evaluates what does not fit, such as a very long IN list.
 */
public final class PushDownBudget {

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
  public boolean takes(Condition condition) {
    List<Condition> parts = parts(condition).toList();
    int literals = parts.stream().mapToInt(part -> part.getFilter().getValuesCount()).sum();
    return takes(parts.size(), literals, condition.getSerializedSize());
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

  /** The condition and all conditions inside it. */
  private static Stream<Condition> parts(Condition condition) {
    Stream<Condition> inner =
        switch (condition.getKindCase()) {
          case ALL -> condition.getAll().getConditionsList().stream();
          case ANY -> condition.getAny().getConditionsList().stream();
          case NEGATED -> Stream.of(condition.getNegated());
          default -> Stream.empty();
        };
    return Stream.concat(Stream.of(condition), inner.flatMap(PushDownBudget::parts));
  }
}
