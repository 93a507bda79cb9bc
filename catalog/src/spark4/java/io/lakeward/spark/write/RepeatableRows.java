package io.lakeward.spark.write;

import io.lakeward.spark.scan.ScalaSequences;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.catalyst.expressions.Ascending$;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.RowOrdering$;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.SortOrder$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LeafNode;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Gives the rows of each task the same order whenever the task runs. A task behind a shuffle gets
 * its rows in the order in which other machines send them. A task that runs again must make the same
 * batches, so its rows are sorted: behind the ORDER BY of the statement, if it has one.
 */
final class RepeatableRows {

  private RepeatableRows() {}

  /** A plan with the same rows, in the same order each time. */
  static LogicalPlan of(LogicalPlan plan) {
    if (isNarrow(plan)) {
      return plan;
    }
    return withTies(plan)
        .orElseGet(() -> sorted(ScalaSequences.of(List.<SortOrder>of()), false, plan));
  }

  /** Whether each task of the plan reads its rows from one source, one after the other. */
  private static boolean isNarrow(LogicalPlan plan) {
    if (plan instanceof InMemoryRelation || plan instanceof LogicalRDD) {
      return false;
    }
    boolean keepsOrder =
        plan instanceof LeafNode
            || plan instanceof Project
            || plan instanceof Filter
            || plan instanceof SubqueryAlias
            || plan instanceof Union;
    return keepsOrder
        && CollectionConverters.asJava(plan.children()).stream().allMatch(RepeatableRows::isNarrow);
  }

  /** The plan with all columns behind those of its own ORDER BY; empty without an ORDER BY. */
  private static Optional<LogicalPlan> withTies(LogicalPlan plan) {
    if (plan instanceof Sort sort) {
      return Optional.of(sorted(sort.order(), sort.global(), sort.child()));
    }
    if (plan instanceof Project || plan instanceof GlobalLimit || plan instanceof LocalLimit) {
      return withTies(plan.children().head())
          .map(child -> (LogicalPlan) plan.withNewChildren(ScalaSequences.of(child)));
    }
    return Optional.empty();
  }

  private static Sort sorted(Seq<SortOrder> first, boolean global, LogicalPlan child) {
    List<SortOrder> order = new ArrayList<>(CollectionConverters.asJava(first));
    for (Attribute column : CollectionConverters.asJava(child.output())) {
      if (RowOrdering$.MODULE$.isOrderable(column.dataType())) {
        order.add(
            SortOrder$.MODULE$.apply(
                (Expression) column, Ascending$.MODULE$, ScalaSequences.<Expression>of()));
      }
    }
    return new Sort(ScalaSequences.of(order), global, child, Option.empty());
  }
}
