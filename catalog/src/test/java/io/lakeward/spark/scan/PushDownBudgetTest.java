package io.lakeward.spark.scan;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lakeward.rpc.v1.Condition;
import io.lakeward.rpc.v1.Conditions;
import io.lakeward.rpc.v1.Filter;
import io.lakeward.rpc.v1.Literal;
import java.util.Collections;
import org.junit.jupiter.api.Test;

class PushDownBudgetTest {

  @Test
  void conditionsBeyondWhatAServiceTakesStayWithSpark() {
    PushDownBudget budget = new PushDownBudget();
    assertFalse(budget.takes(in(5_001)));
    assertTrue(budget.takes(in(4_000)));
    assertFalse(budget.takes(in(1_001)));
    assertTrue(budget.takes(in(1_000)));
    assertFalse(new PushDownBudget().takes(in(1, "x".repeat(600_000))));
    assertFalse(new PushDownBudget().takes(any(500)));
    assertTrue(new PushDownBudget().takes(any(499)));
  }

  private static Filter in(int values) {
    return in(values, "v");
  }

  private static Filter in(int values, String text) {
    Literal value = Literal.newBuilder().setText(text).build();
    return Filter.newBuilder()
        .setColumn("c")
        .setOperator(Filter.Operator.IN)
        .addAllValues(Collections.nCopies(values, value))
        .build();
  }

  private static Condition any(int parts) {
    Condition part = Condition.newBuilder().setFilter(in(1)).build();
    return Condition.newBuilder()
        .setAny(Conditions.newBuilder().addAllConditions(Collections.nCopies(parts, part)))
        .build();
  }
}
