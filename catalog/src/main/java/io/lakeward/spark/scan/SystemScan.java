package io.lakeward.spark.scan;

import io.lakeward.spark.error.LakewardException;
import io.lakeward.spark.service.ArrowRows;
import io.lakeward.sys.rpc.v1.ReadTableRequest;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * One scan of a system table. The read begins when the scan is made, while Spark still plans; Spark
 * waits for it when it takes the rows, on the driver, so that no job runs for them. Spark may take
 * them more than once, so they are kept: one scan sees one moment.
 */
final class SystemScan implements DriverRowsScan {

  private final RowSource source;
  private final ReadTableRequest request;
  private final StructType schema;
  private final StructType fetchedSchema;
  private BackgroundRead<InternalRow[]> pending;
  private InternalRow[] rows;

  private SystemScan(
      RowSource source, ReadTableRequest request, StructType schema, StructType fetchedSchema) {
    this.source = source;
    this.request = request;
    this.schema = schema;
    this.fetchedSchema = fetchedSchema;
    this.pending = source.begin(request, fetchedSchema);
  }

  /**
   * A scan of rows. {@code request} lacks only the columns; {@code schema} has the required columns
   * of {@code whole}, in order. To count rows Spark may require none of them; since no columns
   * means all of them to the service, the first column is requested then.
   */
  static SystemScan ofRows(
      RowSource source, ReadTableRequest request, StructType schema, StructType whole) {
    StructType fetched =
        schema.isEmpty() ? new StructType(new StructField[] {whole.fields()[0]}) : schema;
    ReadTableRequest complete =
        request.toBuilder().addAllColumns(Arrays.asList(fetched.fieldNames())).build();
    return new SystemScan(source, complete, schema, fetched);
  }

  /** A scan of aggregates; {@code schema} has the columns of the answer. */
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
    return ReadRequestText.of(request);
  }

  /** The rows of the read that has begun; after an error, of a new one. */
  private InternalRow[] fetch() {
    BackgroundRead<InternalRow[]> read =
        pending != null ? pending : source.begin(request, fetchedSchema);
    pending = null;
    InternalRow[] fetched = LakewardException.unchecked(read::await);
    if (schema.isEmpty()) {
      Arrays.fill(fetched, ArrowRows.withoutColumns());
    }
    return fetched;
  }
}
