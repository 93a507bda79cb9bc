/** Procedures: their signatures, the arguments of a CALL, and the key that names a CALL. */
package io.lakeward.spark.call;
