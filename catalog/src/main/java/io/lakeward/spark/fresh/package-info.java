/** Reading a data table fresh: the rows of its lake copy and those of the log in one answer. */
package io.lakeward.spark.fresh;
