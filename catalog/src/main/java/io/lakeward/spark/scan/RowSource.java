package io.lakeward.spark.scan;

import io.lakeward.spark.error.LakewardException;
import io.lakeward.sys.rpc.v1.ReadTableRequest;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;

/** Reads rows of system tables. */
@FunctionalInterface
public interface RowSource {

  /** A read that has begun. For one thread at a time; its rows are taken once. */
  @FunctionalInterface
  interface PendingRows {
    /** Waits for the rows. */
    InternalRow[] rows() throws LakewardException;
  }

  /**
   * Begins to read the rows of {@code request}, without waiting for them; {@code schema} has the
   * columns that the statement was planned with.
   */
  PendingRows begin(ReadTableRequest request, StructType schema);
}
