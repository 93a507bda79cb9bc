package io.lakeward.spark.scan;

import io.lakeward.spark.version.SparkClasses;
import java.util.Arrays;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetrics;
import scala.Function1;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.ArraySeq;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A scan of a system table that is a whole plan. It differs from Spark's scan of local rows in two
 * ways. It waits for the rows only when Spark takes them. The rows are in Spark's own format
 * already, so no code is generated to convert them. Public, since Spark copies nodes by reflection.
 */
public final class SystemRowsExec extends SparkPlan {

  /** The name of the metric in Spark's scan of local rows. */
  private static final String ROWS_METRIC = "numOutputRows";

  private final Seq<Attribute> output;
  private final SystemScan scan;
  private final Map<String, SQLMetric> metrics;

  /** The parameters are the elements of the product: Spark copies a node with them. */
  public SystemRowsExec(Seq<Attribute> output, SystemScan scan) {
    this.output = output;
    this.scan = scan;
    SQLMetric rows = SQLMetrics.createMetric(sparkContext(), "number of output rows");
    this.metrics = Map.from(CollectionConverters.asScala(java.util.Map.of(ROWS_METRIC, rows)));
  }

  /** Spark's own scan of local rows. Waits for the rows. */
  static SparkPlan ofSpark(Seq<Attribute> output, SystemScan scan) {
    return SparkClasses.create(
        LocalTableScanExec.class, output, ArraySeq.unsafeWrapArray(scan.rows()), Option.empty());
  }

  @Override
  public InternalRow[] executeCollect() {
    return counted(scan.rows());
  }

  @Override
  public InternalRow[] executeTake(int limit) {
    InternalRow[] all = scan.rows();
    return counted(Arrays.copyOfRange(all, 0, Math.min(limit, all.length)));
  }

  @Override
  public InternalRow[] executeTail(int limit) {
    InternalRow[] all = scan.rows();
    return counted(Arrays.copyOfRange(all, Math.max(0, all.length - limit), all.length));
  }

  @Override
  public RDD<InternalRow> doExecute() {
    return ofSpark(output, scan).execute();
  }

  /** Returns the rows, and reports their number to Spark's user interface. */
  private InternalRow[] counted(InternalRow[] rows) {
    longMetric(ROWS_METRIC).add(rows.length);
    String execution = sparkContext().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
    SQLMetrics.postDriverMetricUpdates(sparkContext(), execution, metrics.values().toSeq());
    return rows;
  }

  @Override
  public Map<String, SQLMetric> metrics() {
    return metrics;
  }

  @Override
  public Seq<Attribute> output() {
    return output;
  }

  @Override
  public AttributeSet producedAttributes() {
    return outputSet();
  }

  @Override
  public String nodeName() {
    return "SystemTableScan";
  }

  @Override
  public Iterator<Object> stringArgs() {
    return CollectionConverters.asScala(
        Arrays.<Object>asList(scan.description(), output).iterator());
  }

  // The methods of a leaf of Spark's trees.

  @Override
  public Seq<SparkPlan> children() {
    return ScalaSequences.of();
  }

  @Override
  public SparkPlan mapChildren(Function1<SparkPlan, SparkPlan> change) {
    return this;
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return this;
  }

  @Override
  public SparkPlan doCanonicalize() {
    return this;
  }

  @Override
  public int productArity() {
    return 2;
  }

  @Override
  public Object productElement(int index) {
    return index == 0 ? output : scan;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof SystemRowsExec;
  }
}
