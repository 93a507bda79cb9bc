/**
 * The objects that Spark looks up: namespaces, tables, procedures. System tables are read by {@code
 * scan}, procedures are executed by {@code call}, data tables are read from the lake's own catalog.
 */
package io.lakeward.spark.catalog;
