/** Statements that define databases and tables, each as one request to the service. */
package io.lakeward.spark.define;
