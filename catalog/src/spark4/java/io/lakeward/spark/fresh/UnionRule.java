package io.lakeward.spark.fresh;

import io.lakeward.spark.scan.ScalaSequences;
import io.lakeward.spark.version.SparkClasses;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EvalMode$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.optimizer.LimitPushDown;
import org.apache.spark.sql.catalyst.optimizer.PushDownPredicates;
import org.apache.spark.sql.catalyst.optimizer.PushProjectionThroughUnion;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Replaces the scan of a log table by the union of two scans: the lake's own of the lake copy, and
 * one of the log. So the lake copy is read as fast as without the log. Spark plans one kind of
 * partitions for a scan, so one scan cannot have both. The rule runs after Spark has pushed columns
 * and conditions into the scan.
 */
public final class UnionRule extends Rule<LogicalPlan> {

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (!plan.exists(node -> freshScan((LogicalPlan) node) != null)) {
      return plan;
    }
    Replacement replacement = new Replacement();
    LogicalPlan changed = (LogicalPlan) plan.transformUp(replacement);
    // Spark's rules for unions have run already. The scans have the conditions.
    return LimitPushDown.apply(
        replacement.copiesRows
            ? PushProjectionThroughUnion.apply(PushDownPredicates.apply(changed))
            : changed);
  }

  /** The scan that is to be replaced, else null. */
  private static FreshScan freshScan(LogicalPlan node) {
    return node instanceof DataSourceV2ScanRelation relation
            && relation.scan() instanceof FreshScan scan
            && scan.lakeRows().isPresent()
        ? scan
        : null;
  }

  private static final class Replacement extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {

    /**
     * Whether Spark copies the rows of a union. It does not if all parts return columns, and then
     * nothing should be computed below the union. Iceberg returns rows if a type is nested.
     */
    private boolean copiesRows;

    @Override
    public boolean isDefinedAt(LogicalPlan node) {
      return freshScan(node) != null;
    }

    @Override
    public LogicalPlan apply(LogicalPlan node) {
      DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) node;
      FreshScan scan = freshScan(node);
      LogicalPlan lake = lakeRows(relation, scan.lakeRows().orElseThrow());
      if (!scan.hasLogRecords()) {
        scan.setComplete();
        return lake;
      }
      List<AttributeReference> output = new ArrayList<>();
      for (AttributeReference column : columns(relation)) {
        output.add((AttributeReference) column.newInstance());
      }
      FreshScan logRows = scan.logRows();
      LogicalPlan log = relation(relation, logRows, output);
      copiesRows |=
          logRows.columnarSupportMode() != Scan.ColumnarSupportMode.SUPPORTED
              || !(lake instanceof DataSourceV2ScanRelation)
              || Arrays.stream(logRows.readSchema().fields()).anyMatch(Replacement::isNested);
      return new Union(ScalaSequences.of(lake, log), false, false);
    }

    private static boolean isNested(StructField field) {
      DataType type = field.dataType();
      return type instanceof StructType || type instanceof ArrayType || type instanceof MapType;
    }
  }

  /** The rows of the lake copy with the columns, types and expression ids of {@code relation}. */
  private static LogicalPlan lakeRows(DataSourceV2ScanRelation relation, LakeRows lake) {
    Map<String, AttributeReference> columns = new HashMap<>();
    columns(relation).forEach(column -> columns.put(column.name(), column));
    List<AttributeReference> scanned = new ArrayList<>();
    Map<String, AttributeReference> byName = new HashMap<>();
    boolean isSame = lake.scan().readSchema().length() == columns.size();
    int position = 0;
    for (StructField field : lake.scan().readSchema().fields()) {
      AttributeReference column = columns.get(field.name());
      boolean isSameType = LakeRows.isSame(column.dataType(), field.dataType());
      AttributeReference attribute =
          isSameType ? column : attribute(field.name(), field, column);
      isSame &= isSameType && columns(relation).get(position++).name().equals(field.name());
      scanned.add(attribute);
      byName.put(field.name(), attribute);
    }
    LogicalPlan rows = relation(relation, lake.scan(), scanned);
    if (isSame) {
      return rows;
    }
    List<NamedExpression> output = new ArrayList<>();
    for (AttributeReference column : columns(relation)) {
      AttributeReference attribute = byName.get(column.name());
      output.add(attribute == column ? column : renamed(value(column, attribute), column));
    }
    return new Project(ScalaSequences.of(output), rows);
  }

  private static AttributeReference attribute(
      String name, StructField field, AttributeReference column) {
    return new AttributeReference(
        name, field.dataType(), true, column.metadata(), NamedExpression$.MODULE$.newExprId(),
        column.qualifier());
  }

  /** The value of a column: NULL if the lake does not have it yet. */
  private static Expression value(AttributeReference column, AttributeReference lake) {
    return lake == null
        ? new Literal(null, column.dataType())
        : new Cast(
            lake,
            column.dataType(),
            Option.apply(SparkSession.active().sessionState().conf().sessionLocalTimeZone()),
            EvalMode$.MODULE$.ANSI());
  }

  private static NamedExpression renamed(Expression value, AttributeReference column) {
    return new Alias(
        value,
        column.name(),
        column.exprId(),
        column.qualifier(),
        Option.apply(column.metadata()),
        ScalaSequences.of());
  }

  private static LogicalPlan relation(
      DataSourceV2ScanRelation relation, Scan scan, List<AttributeReference> output) {
    Seq<AttributeReference> columns = ScalaSequences.of(output);
    return SparkClasses.create(
        DataSourceV2ScanRelation.class,
        relation.relation(),
        scan,
        columns,
        Option.empty(),
        Option.empty());
  }

  private static List<AttributeReference> columns(DataSourceV2ScanRelation relation) {
    return CollectionConverters.asJava(relation.output());
  }
}
