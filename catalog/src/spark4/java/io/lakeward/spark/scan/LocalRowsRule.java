package io.lakeward.spark.scan;

import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Unevaluable;
import org.apache.spark.sql.catalyst.expressions.codegen.LazilyGeneratedOrdering;
import org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.UnaryNode;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.Option;
import scala.collection.immutable.ArraySeq;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractPartialFunction;

/**
 * Replaces scans whose rows the service sends to the driver, such as of system tables, by the rows while Spark optimises a plan. Spark starts a job
 * for every operator above a scan, even for an alias. Over local rows, Spark's own rule computes
 * columns, conditions and limits without a job, as it does for VALUES. This rule sorts, with
 * Spark's ordering. Joins and other aggregates need a job. {@link SystemScanStrategy} plans a scan
 * that is the whole plan.
 */
final class LocalRowsRule extends Rule<LogicalPlan> {

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return systemScan(plan) == null && plan.exists(node -> rowsScan((LogicalPlan) node) != null)
        ? (LogicalPlan) plan.transformUp(new Step())
        : plan;
  }

  /** Rewrites one node of a plan, whose children are rewritten already. */
  private static final class Step extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {

    @Override
    public boolean isDefinedAt(LogicalPlan node) {
      return rowsScan(node) != null
          || (node instanceof UnaryNode unary && unary.child() instanceof LocalRelation);
    }

    @Override
    public LogicalPlan apply(LogicalPlan node) {
      DriverRowsScan scan = rowsScan(node);
      if (scan != null) {
        return relation(node.output(), scan.rows());
      }
      LocalRelation rows = (LocalRelation) ((UnaryNode) node).child();
      if (node instanceof Sort sort && canSort(sort)) {
        return sorted(sort, rows);
      }
      // Spark's rule removes the local half of a limit, and knows the global half only with it.
      if (node instanceof GlobalLimit limit && limit.limitExpr() instanceof Literal number) {
        return rows.copy(
            rows.output(),
            ScalaSequences.cast(rows.data().take((Integer) number.value())),
            rows.isStreaming(),
            rows.stream());
      }
      return ConvertToLocalRelation.apply(node);
    }
  }

  /** The node's scan if it is one of a system table, else null. */
  static SystemScan systemScan(LogicalPlan node) {
    return node instanceof DataSourceV2ScanRelation relation
            && relation.scan() instanceof SystemScan scan
        ? scan
        : null;
  }

  private static DriverRowsScan rowsScan(LogicalPlan node) {
    return node instanceof DataSourceV2ScanRelation relation
            && relation.scan() instanceof DriverRowsScan scan
        ? scan
        : null;
  }

  private static boolean canSort(Sort sort) {
    return sort.global()
        && !sort.order().exists(key -> key.child().exists(LocalRowsRule::isUnevaluable));
  }

  private static boolean isUnevaluable(TreeNode<?> part) {
    return part instanceof Unevaluable && !(part instanceof AttributeReference);
  }

  private static LogicalPlan sorted(Sort sort, LocalRelation rows) {
    InternalRow[] sorted = new InternalRow[rows.data().length()];
    rows.data().copyToArray(sorted);
    Arrays.sort(sorted, new LazilyGeneratedOrdering(sort.order(), rows.output()));
    return relation(rows.output(), sorted);
  }

  private static LocalRelation relation(Seq<Attribute> output, InternalRow[] rows) {
    return new LocalRelation(output, ArraySeq.unsafeWrapArray(rows), false, Option.empty());
  }
}
