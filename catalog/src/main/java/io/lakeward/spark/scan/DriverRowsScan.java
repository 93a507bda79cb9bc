package io.lakeward.spark.scan;

import org.apache.spark.sql.connector.read.LocalScan;

/** A scan whose rows the driver gets from the service. {@link LocalRowsRule} replaces it by them. */
public interface DriverRowsScan extends LocalScan {}
