package io.lakeward.spark.version;

import io.lakeward.spark.error.LakewardException;

/** The version of Spark with which this plugin works. */
public final class SparkVersion {

  private static final String SUPPORTED = "3.5";

  private SparkVersion() {}

  /**
   * Throws LakewardException for another Spark, where statements would end in errors about missing
   * classes.
   */
  public static void check(String version) throws LakewardException {
    if (!version.startsWith(SUPPORTED + ".")) {
      throw new LakewardException(
          ("This jar of Lakeward's plugin needs Spark %s, and this is Spark %s. Spark 4.0 and newer"
                  + " need lakeward-spark-plugin.jar, whose properties `lakeward spark-conf` prints."
                  + " Versions older than %s do not work.")
              .formatted(SUPPORTED, version, SUPPORTED));
    }
  }
}
