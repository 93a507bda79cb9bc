package io.lakeward.spark.fresh;

import io.lakeward.rpc.v1.ReadScan;
import io.lakeward.spark.error.LakewardException;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.LiteralValue;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.And;
import org.apache.spark.sql.connector.expressions.filter.Not;
import org.apache.spark.sql.connector.expressions.filter.Or;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The scan of a lake copy by the lake's own library.
 *
 * @param scan has those of the required columns that the lake has, with the lake's types
 */
record LakeRows(Scan scan) {

  private static final Set<String> COMPARING =
      Set.of("=", "<>", "<", "<=", ">", ">=", "<=>", "IN", "IS_NULL", "IS_NOT_NULL");

  /**
   * The scan of {@code copy} with the columns {@code required}, conditions and limit. Throws
   * LakewardException if a column has a type that does not fit.
   */
  static LakeRows of(
      SupportsRead copy, StructType required, List<Predicate> predicates, ReadScan request)
      throws LakewardException {
    Map<String, StructField> lake = new HashMap<>();
    Map<String, DataType> same = new HashMap<>();
    Map<String, DataType> comparable = new HashMap<>();
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
        same.put(field.name(), column.dataType());
        comparable.put(field.name(), column.dataType());
      } else if (column != null && isWidened(field.dataType(), column.dataType())) {
        comparable.put(field.name(), column.dataType());
      }
    }
    ScanBuilder builder = copy.newScanBuilder(CaseInsensitiveStringMap.empty());
    if (builder instanceof SupportsPushDownV2Filters filters) {
      filters.pushPredicates(
          predicates.stream()
              .flatMap(
                  predicate ->
                      readsOnly(predicate, same)
                          ? Stream.of(predicate)
                          : widened(predicate, comparable).stream())
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
  private static boolean readsOnly(Expression expression, Map<String, DataType> columns) {
    return expression instanceof NamedReference reference
        ? columns.containsKey(reference.fieldNames()[0])
        : Arrays.stream(expression.children()).allMatch(child -> readsOnly(child, columns));
  }

  /** Whether the lake has the type for want of the source's narrower one. */
  private static boolean isWidened(DataType source, DataType lake) {
    return lake.equals(DataTypes.IntegerType)
        && (source.equals(DataTypes.ByteType) || source.equals(DataTypes.ShortType));
  }

  /**
   * The predicate with literals of the lake's types; empty unless it consists of comparisons of
   * {@code columns} with literals, which mean the same for the wider type.
   */
  static Optional<Predicate> widened(Expression expression, Map<String, DataType> columns) {
    if (!(expression instanceof Predicate predicate)) {
      return Optional.empty();
    }
    Expression[] children = predicate.children();
    // Iceberg casts these three to their classes.
    switch (predicate.name()) {
      case "AND", "OR":
        boolean all = predicate.name().equals("AND");
        return widened(children[0], columns)
            .flatMap(
                left ->
                    widened(children[1], columns)
                        .map(right -> all ? new And(left, right) : new Or(left, right)));
      case "NOT":
        return widened(children[0], columns).map(Not::new);
      default:
        Expression[] operands =
            Arrays.stream(children)
                .flatMap(child -> operand(child, columns).stream())
                .toArray(Expression[]::new);
        return COMPARING.contains(predicate.name()) && operands.length == children.length
            ? Optional.of(new Predicate(predicate.name(), operands))
            : Optional.empty();
    }
  }

  private static Optional<Expression> operand(
      Expression expression, Map<String, DataType> columns) {
    if (expression instanceof NamedReference reference) {
      return Optional.of(expression)
          .filter(
              column ->
                  reference.fieldNames().length == 1
                      && columns.containsKey(reference.fieldNames()[0]));
    }
    if (!(expression instanceof Literal<?> literal)) {
      return Optional.empty();
    }
    return Optional.of(
        literal.value() != null && isWidened(literal.dataType(), DataTypes.IntegerType)
            ? new LiteralValue<>(((Number) literal.value()).intValue(), DataTypes.IntegerType)
            : literal);
  }

  /** Whether two types differ in nothing but what may be NULL. */
  static boolean isSame(DataType one, DataType other) {
    return nullable(one).equals(nullable(other));
  }

  static DataType nullable(DataType type) {
    return type.asNullable();
  }
}
