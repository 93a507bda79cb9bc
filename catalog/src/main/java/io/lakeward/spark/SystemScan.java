package io.lakeward.spark;

import io.lakeward.sys.rpc.v1.ReadTableRequest;
import java.util.Arrays;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * One look at a system table. Spark takes the rows while it plans, so no job is run for them; and
 * it may take them more than once, so they are kept: one scan sees one moment.
 */
final class SystemScan implements LocalScan {

  private final RowSource source;
  private final ReadTableRequest request;
  private final StructType schema;
  private final StructType fetchedSchema;
  private InternalRow[] rows;

  private SystemScan(
      RowSource source, ReadTableRequest request, StructType schema, StructType fetchedSchema) {
    this.source = source;
    this.request = request;
    this.schema = schema;
    this.fetchedSchema = fetchedSchema;
  }

  /**
   * {@code request} lacks only the columns; {@code schema} has those wanted, in order, of {@code
   * whole}. To count rows Spark may want none of them; since no columns means all of them to the
   * service, it is asked for the first one then.
   */
  static SystemScan ofRows(
      RowSource source, ReadTableRequest request, StructType schema, StructType whole) {
    StructType fetched =
        schema.isEmpty() ? new StructType(new StructField[] {whole.fields()[0]}) : schema;
    ReadTableRequest complete =
        request.toBuilder().addAllColumns(Arrays.asList(fetched.fieldNames())).build();
    return new SystemScan(source, complete, schema, fetched);
  }

  /** {@code request} asks for aggregates, and {@code schema} is what they are answered with. */
  static SystemScan ofAggregates(RowSource source, ReadTableRequest request, StructType schema) {
    return new SystemScan(source, request, schema, schema);
  }

  @Override
  public StructType readSchema() {
    return schema;
  }

  @Override
  public synchronized InternalRow[] rows() {
    if (rows == null) {
      rows = fetch();
    }
    return rows;
  }

  @Override
  public String description() {
    String filters =
        request.getFiltersList().stream()
            .map(filter -> filter.getColumn() + " " + filter.getOperator())
            .collect(Collectors.joining(", "));
    return request.getNamespace()
        + "."
        + request.getName()
        + " [filters: "
        + filters
        + (request.hasLimit() ? "; limit: " + request.getLimit() : "")
        + "]";
  }

  private InternalRow[] fetch() {
    try {
      InternalRow[] fetched = source.read(request, fetchedSchema);
      if (schema.isEmpty()) {
        Arrays.fill(fetched, InternalRow.empty());
      }
      return fetched;
    } catch (LakewardException error) {
      throw error.unchecked();
    }
  }
}
