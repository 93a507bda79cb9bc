/** Statements that write rows of data tables: executors write what the service has opened. */
package io.lakeward.spark.write;
