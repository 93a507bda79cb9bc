package io.lakeward.spark.scan;

import io.lakeward.sys.rpc.v1.ReadTableRequest;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;

/** Reads rows of system tables. */
@FunctionalInterface
public interface RowSource {

  /**
   * Begins to read the rows of {@code request}, without waiting for them; {@code schema} has the
   * columns that the statement was planned with.
   */
  BackgroundRead<InternalRow[]> begin(ReadTableRequest request, StructType schema);
}
