/** The errors that users see, and how text from outside is shown in them. */
package io.lakeward.spark.error;
