/** The versions of Spark with which this plugin works, and their differences. */
package io.lakeward.spark.version;
