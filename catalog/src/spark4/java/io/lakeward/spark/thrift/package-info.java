/** The metadata calls of JDBC and ODBC to a Thrift server, which Spark answers from its own catalog. */
package io.lakeward.spark.thrift;
