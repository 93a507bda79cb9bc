/** Reading a system table: what is pushed down to the service, and how its rows reach the plan. */
package io.lakeward.spark.scan;
