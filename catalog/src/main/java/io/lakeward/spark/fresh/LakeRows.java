package io.lakeward.spark.fresh;

import io.lakeward.rpc.v1.ReadScan;
import io.lakeward.spark.error.LakewardException;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The scan of a lake copy by the lake's own library.
 *
 * @param scan has those of the required columns that the lake has, with the lake's types
 */
record LakeRows(Scan scan) {

  /**
   * The scan of {@code copy} with the columns {@code required}, conditions and limit. Throws
   * LakewardException if a column has a type that does not fit.
   */
  static LakeRows of(
      SupportsRead copy, StructType required, List<Predicate> predicates, ReadScan request)
      throws LakewardException {
    Map<String, StructField> lake = new HashMap<>();
    Map<String, StructField> same = new HashMap<>();
    for (Column column : copy.columns()) {
      lake.put(
          column.name(),
          new StructField(
              column.name(),
              column.dataType(),
              column.nullable(),
              org.apache.spark.sql.types.Metadata.empty()));
    }
    for (StructField field : required.fields()) {
      check(copy.name(), field, lake.get(field.name()));
      StructField column = lake.get(field.name());
      if (column != null && isSame(column.dataType(), field.dataType())) {
        same.put(field.name(), column);
      }
    }
    ScanBuilder builder = copy.newScanBuilder(CaseInsensitiveStringMap.empty());
    if (builder instanceof SupportsPushDownV2Filters filters) {
      filters.pushPredicates(
          predicates.stream()
              .filter(predicate -> readsOnly(predicate, same))
              .toArray(Predicate[]::new));
    }
    if (builder instanceof SupportsPushDownRequiredColumns columns) {
      columns.pruneColumns(
          new StructType(
              Arrays.stream(required.fieldNames())
                  .map(lake::get)
                  .filter(Objects::nonNull)
                  .toArray(StructField[]::new)));
    }
    if (request.hasLimit() && builder instanceof SupportsPushDownLimit limit) {
      limit.pushLimit((int) request.getLimit());
    }
    return new LakeRows(builder.build());
  }

  /** The size of the rows as the lake's library estimates it from its metadata. */
  Optional<Statistics> statistics() {
    return scan instanceof SupportsReportStatistics reporting
        ? Optional.of(reporting.estimateStatistics())
        : Optional.empty();
  }

  /** The lake may have a wider type than the source, such as INT for TINYINT. */
  private static void check(String table, StructField source, StructField lake)
      throws LakewardException {
    if (lake != null && !Cast.canUpCast(nullable(source.dataType()), nullable(lake.dataType()))) {
      throw new LakewardException(
          ("the column %s has the type %s in the source and %s in the lake table %s, so its rows"
                  + " cannot be read together. Read the lake copy alone, by the name of the table"
                  + " with the suffix $lake")
              .formatted(
                  source.name(), source.dataType().sql(), lake.dataType().sql(), table));
    }
  }

  /** Whether the predicate needs only columns that have the same type in source and lake. */
  private static boolean readsOnly(Expression expression, Map<String, StructField> columns) {
    return expression instanceof NamedReference reference
        ? columns.containsKey(reference.fieldNames()[0])
        : Arrays.stream(expression.children()).allMatch(child -> readsOnly(child, columns));
  }

  /** Whether two types differ in nothing but what may be NULL. */
  static boolean isSame(DataType one, DataType other) {
    return nullable(one).equals(nullable(other));
  }

  static DataType nullable(DataType type) {
    return type.asNullable();
  }
}
