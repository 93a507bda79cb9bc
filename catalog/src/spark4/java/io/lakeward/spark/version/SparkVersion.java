package io.lakeward.spark.version;

import io.lakeward.spark.error.LakewardException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The versions of Spark with which this plugin works. */
public final class SparkVersion {

  /** The oldest Spark that has procedures, which CALL needs. */
  private static final int MAJOR = 4;

  private static final int MINOR = 0;

  private static final Pattern NUMBERS = Pattern.compile("(\\d+)\\.(\\d+).*");

  private SparkVersion() {}

  /**
   * Throws LakewardException for an older Spark, where statements would end in errors about missing
   * classes. A version without numbers passes: it names a custom build.
   */
  public static void check(String version) throws LakewardException {
    Matcher numbers = NUMBERS.matcher(version);
    if (!numbers.matches()) {
      return;
    }
    int major = Integer.parseInt(numbers.group(1));
    int minor = Integer.parseInt(numbers.group(2));
    if (major < MAJOR || (major == MAJOR && minor < MINOR)) {
      throw new LakewardException(
          ("This jar of Lakeward's plugin needs Spark %d.%d or newer, and this is Spark %s. Spark 3.5"
                  + " needs lakeward-spark-plugin-3.5.jar, whose properties `lakeward spark-conf"
                  + " --spark 3.5` prints. Older versions do not work.")
              .formatted(MAJOR, MINOR, version));
    }
  }
}
