package io.lakeward.spark.scan;

import io.lakeward.spark.service.SparkStatement;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import scala.collection.immutable.Seq;

/**
 * Plans the scans that {@link LocalRowsRule} does not replace. Spark's own strategy would wait for
 * their rows while it plans.
 */
final class SystemScanStrategy extends SparkStrategy {

  @Override
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    SystemScan scan = LocalRowsRule.systemScan(plan);
    if (scan == null) {
      return ScalaSequences.of();
    }
    Seq<Attribute> output = plan.output();
    // Spark Connect sends rows without a job only from Spark's own scan of local rows.
    return ScalaSequences.of(
        SparkStatement.tags().contains(SparkStatement.CONNECT_OPERATION)
            ? SystemRowsExec.ofSpark(output, scan)
            : new SystemRowsExec(output, scan));
  }
}
