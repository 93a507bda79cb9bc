package io.lakeward.spark;

import io.lakeward.sys.rpc.v1.ReadTableRequest;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * One look at a system table. It asks when it is made, while Spark still plans, and waits when
 * Spark takes the rows: on the driver, so no job is run for them. Spark may take them more than
 * once, so they are kept: one scan sees one moment.
 */
final class SystemScan implements LocalScan {

  private final RowSource source;
  private final ReadTableRequest request;
  private final StructType schema;
  private final StructType fetchedSchema;
  private RowSource.Reading reading;
  private InternalRow[] rows;

  private SystemScan(
      RowSource source, ReadTableRequest request, StructType schema, StructType fetchedSchema) {
    this.source = source;
    this.request = request;
    this.schema = schema;
    this.fetchedSchema = fetchedSchema;
    this.reading = source.begin(request, fetchedSchema);
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
    return RequestWords.of(request);
  }

  /** What was asked for in the beginning; after an error, asked for again. */
  private InternalRow[] fetch() {
    RowSource.Reading begun = reading != null ? reading : source.begin(request, fetchedSchema);
    reading = null;
    try {
      InternalRow[] fetched = begun.rows();
      if (schema.isEmpty()) {
        Arrays.fill(fetched, ArrowRows.withoutColumns());
      }
      return fetched;
    } catch (LakewardException error) {
      throw error.unchecked();
    }
  }
}
