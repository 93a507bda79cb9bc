package io.lakeward.spark;

import io.lakeward.sys.rpc.v1.Filter;
import io.lakeward.sys.rpc.v1.ReadTableRequest;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.StructType;

/**
 * Collects what the service can do in Spark's stead: columns, filters, limit. It does them exactly,
 * so Spark need not.
 */
final class SystemScanBuilder
    implements SupportsPushDownRequiredColumns, SupportsPushDownV2Filters, SupportsPushDownLimit {

  private final RowSource source;
  private final ReadTableRequest.Builder request;
  private final Filters filters;
  private final List<Predicate> pushed = new ArrayList<>();
  private final StructType whole;
  private StructType wanted;

  /** {@code request} names the table; {@code schema} has all its columns. */
  SystemScanBuilder(RowSource source, ReadTableRequest request, StructType schema) {
    this.source = source;
    this.request = request.toBuilder();
    this.filters = new Filters(schema);
    this.whole = schema;
    this.wanted = schema;
  }

  @Override
  public Predicate[] pushPredicates(Predicate[] predicates) {
    List<Predicate> left = new ArrayList<>();
    for (Predicate predicate : predicates) {
      Optional<Filter> filter = filters.translate(predicate);
      if (filter.isPresent()) {
        request.addFilters(filter.get());
        pushed.add(predicate);
      } else {
        left.add(predicate);
      }
    }
    return left.toArray(Predicate[]::new);
  }

  @Override
  public Predicate[] pushedPredicates() {
    return pushed.toArray(Predicate[]::new);
  }

  @Override
  public boolean pushLimit(int limit) {
    request.setLimit(limit);
    return true;
  }

  @Override
  public boolean isPartiallyPushed() {
    return false;
  }

  @Override
  public void pruneColumns(StructType requiredSchema) {
    wanted = requiredSchema;
  }

  @Override
  public Scan build() {
    return new SystemScan(source, request.build(), wanted, whole);
  }
}
