package io.lakeward.spark.service;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.StructType;

/** Rows in memory, as a scan. */
record RowsScan(StructType readSchema, InternalRow[] rows) implements LocalScan {}
