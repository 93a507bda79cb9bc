/** The gRPC service: its client, the catalog's options, and Arrow as Spark's rows. */
package io.lakeward.spark.service;
