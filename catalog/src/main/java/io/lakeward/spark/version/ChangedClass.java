package io.lakeward.spark.version;

/** The error for an internal class of Spark that is another one than in the tested versions. */
final class ChangedClass {

  private ChangedClass() {}

  static IllegalStateException error(String type, Exception cause) {
    return new IllegalStateException(
        ("this version of Spark has another class %s than Lakeward's plugin expects: use a version"
                + " of Spark that docs/versions.md names")
            .formatted(type),
        cause);
  }
}
