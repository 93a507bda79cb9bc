package io.lakeward.spark;

import io.lakeward.sys.rpc.v1.ReadTableRequest;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;

/** Where the rows of system tables come from. */
@FunctionalInterface
interface RowSource {

  /** A question that is on its way. For one thread at a time; its answer is taken once. */
  @FunctionalInterface
  interface Reading {
    /** Waits for the answer. */
    InternalRow[] rows() throws LakewardException;
  }

  /**
   * Asks for the rows of {@code request}, without waiting for them; {@code schema} is what its
   * columns should be.
   */
  Reading begin(ReadTableRequest request, StructType schema);
}
