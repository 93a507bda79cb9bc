/** The interfaces of Spark 4 through which procedures are described and called, for Spark 3.5. */
package org.apache.spark.sql.connector.catalog.procedures;
