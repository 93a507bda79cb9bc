package io.lakeward.spark;

import io.lakeward.sys.rpc.v1.ReadTableRequest;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;

/** Where the rows of system tables come from. */
@FunctionalInterface
interface RowSource {

  /** The rows that {@code request} asks for; {@code schema} is what its columns should be. */
  InternalRow[] read(ReadTableRequest request, StructType schema) throws LakewardException;
}
