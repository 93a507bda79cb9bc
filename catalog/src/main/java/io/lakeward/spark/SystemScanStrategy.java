package io.lakeward.spark;

import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import scala.collection.immutable.Seq;

/**
 * How Spark executes the scans that {@link RowsInPlan} left alone. Its own strategy would wait for
 * their rows while it plans.
 */
final class SystemScanStrategy extends SparkStrategy {

  @Override
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    SystemScan scan = RowsInPlan.systemScan(plan);
    if (scan == null) {
      return SessionRules.listed();
    }
    Seq<Attribute> output = plan.output();
    // Spark Connect sends rows without a job only from a scan that it knows.
    return SessionRules.listed(
        StatementTags.current().contains(StatementTags.CONNECT_OPERATION)
            ? SystemRowsExec.ofSpark(output, scan)
            : new SystemRowsExec(output, scan));
  }
}
