/** The connection to the service: channels, TLS, and the token that calls show. */
package io.lakeward.spark.connection;
