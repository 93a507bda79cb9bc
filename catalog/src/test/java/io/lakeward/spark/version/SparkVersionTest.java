package io.lakeward.spark.version;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lakeward.spark.error.LakewardException;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class SparkVersionTest {

  @ParameterizedTest
  @ValueSource(strings = {"3.5.7", "3.5.9-amzn-1"})
  void anOlderSparkIsRefusedByName(String version) {
    LakewardException error =
        assertThrows(LakewardException.class, () -> SparkVersion.check(version));
    assertTrue(error.getMessage().contains("Spark " + version), error.getMessage());
    assertTrue(error.getMessage().contains("Spark 4.0"), error.getMessage());
    assertTrue(
        error.getMessage().contains("lakeward-spark-plugin-3.5.jar"), error.getMessage());
    assertTrue(error.getMessage().contains("spark-conf --spark 3.5"), error.getMessage());
  }

  @ParameterizedTest
  @ValueSource(strings = {"4.0.0", "4.0.5-amzn-1", "4.1.4", "4.3.0", "4.10.0-SNAPSHOT", "5.0.0", "main"})
  void thisSparkAndNewerOnesPass(String version) {
    assertDoesNotThrow(() -> SparkVersion.check(version));
  }
}
