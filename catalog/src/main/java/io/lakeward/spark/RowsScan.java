package io.lakeward.spark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.StructType;

/** Rows that are already here. */
record RowsScan(StructType readSchema, InternalRow[] rows) implements LocalScan {}
