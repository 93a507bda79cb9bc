package io.lakeward.spark.fresh;

import static io.lakeward.spark.error.LakewardException.unchecked;

import io.lakeward.rpc.v1.Condition;
import io.lakeward.rpc.v1.ReadScan.Part;
import io.lakeward.rpc.v1.ReadScan;
import io.lakeward.spark.error.LakewardException;
import io.lakeward.spark.scan.ConditionTranslator;
import io.lakeward.spark.scan.PushDownBudget;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Collects columns, conditions and limit of one scan for both lake and log. Spark filters again,
 * because the service may return rows that the conditions exclude. A count of all rows is the
 * answer of the service if it has the number.
 */
public final class FreshScanBuilder
    implements SupportsPushDownRequiredColumns,
        SupportsPushDownV2Filters,
        SupportsPushDownLimit,
        SupportsPushDownAggregates {

  private final FreshSource source;
  private final StructType whole;
  private final ConditionTranslator conditions;
  private final PushDownBudget budget = new PushDownBudget();
  private final List<Predicate> predicates = new ArrayList<>();
  private final List<Predicate> pushed = new ArrayList<>();
  private final ReadScan.Builder scan;
  private StructType required;
  private OptionalLong rowCount;
  private boolean counted;
  private final StreamBatches stream;
  private boolean isBatch;

  /**
   * @param schema all columns of the table
   * @param options of the statement
   */
  public FreshScanBuilder(
      FreshSource source, StructType schema, CaseInsensitiveStringMap options) {
    this.stream = source.stream(options);
    this.source = source;
    this.whole = schema;
    this.required = schema;
    this.conditions = new ConditionTranslator(schema);
    this.scan = ReadScan.newBuilder().setPart(source.part());
  }

  /** Keeps at least one column, because Python sends the number of rows only with a column. */
  @Override
  public void pruneColumns(StructType requiredSchema) {
    isBatch = true; // Spark pushes nothing down for a streaming query
    if (counted) {
      return;
    }
    required =
        requiredSchema.isEmpty()
            ? new StructType(new StructField[] {narrowest(whole)})
            : requiredSchema;
  }

  private static StructField narrowest(StructType schema) {
    return Arrays.stream(schema.fields())
        .min(Comparator.comparingInt(field -> field.dataType().defaultSize()))
        .orElseThrow();
  }

  @Override
  public Predicate[] pushPredicates(Predicate[] all) {
    for (Predicate predicate : all) {
      predicates.add(predicate);
      Optional<Condition> condition = conditions.translate(predicate).filter(budget::takes);
      if (condition.isPresent()) {
        scan.addConditions(condition.get());
        pushed.add(predicate);
      }
    }
    return all;
  }

  @Override
  public Predicate[] pushedPredicates() {
    return pushed.toArray(Predicate[]::new);
  }

  @Override
  public boolean pushLimit(int limit) {
    scan.setLimit(limit);
    return true;
  }

  @Override
  public boolean isPartiallyPushed() {
    return true;
  }

  @Override
  public boolean supportCompletePushDown(Aggregation aggregation) {
    return isCountOfRows(aggregation) && rowCount().isPresent();
  }

  @Override
  public boolean pushAggregation(Aggregation aggregation) {
    counted = supportCompletePushDown(aggregation);
    return counted;
  }

  private static boolean isCountOfRows(Aggregation aggregation) {
    return aggregation.groupByExpressions().length == 0
        && aggregation.aggregateExpressions().length == 1
        && aggregation.aggregateExpressions()[0] instanceof CountStar;
  }

  /** The number of rows, for which the service is asked once. */
  private OptionalLong rowCount() {
    if (rowCount == null) {
      rowCount = unchecked(() -> source.read().rowCount(scan.build()));
    }
    return rowCount;
  }

  @Override
  public Scan build() {
    if (counted) {
      return new RowCountScan(source.table(), rowCount().getAsLong());
    }
    return isBatch
        ? unchecked(this::rows)
        : new StreamScan(source.table(), whole, stream, this::rows);
  }

  private FreshScan rows() throws LakewardException {
    OpenedRead read = source.read();
    ReadScan complete = scan.addAllColumns(Arrays.asList(required.fieldNames())).build();
    FreshScan whole =
        new FreshScan(
            read, complete, required, Optional.empty(), () -> lakeStatistics(complete));
    if (complete.getPart() != Part.ROWS || read.hasPrimaryKey()) {
      return whole;
    }
    Optional<SupportsRead> copy = source.lakeCopy();
    if (copy.isEmpty()) {
      return whole;
    }
    LakeRows lake = LakeRows.of(copy.get(), required, predicates, complete);
    return new FreshScan(read, complete, required, Optional.of(lake), lake::statistics);
  }

  /** The estimate for lake rows that Python reads; empty if this Spark cannot open the lake copy. */
  private Optional<Statistics> lakeStatistics(ReadScan request) {
    try {
      Optional<SupportsRead> copy = source.lakeCopy();
      return copy.isEmpty()
          ? Optional.empty()
          : LakeRows.of(copy.get(), required, predicates, request).statistics();
    } catch (LakewardException unreadable) {
      return Optional.empty(); // Python reads the files without a catalog of Spark
    }
  }
}
