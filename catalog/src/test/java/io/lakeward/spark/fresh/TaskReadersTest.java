package io.lakeward.spark.fresh;

import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lakeward.spark.error.LakewardException;
import java.io.IOException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class TaskReadersTest {

  @ParameterizedTest
  @ValueSource(
      strings = {
        "Cannot run program \"python3\": error=2, No such file or directory",
        "ModuleNotFoundError: No module named 'tiering'",
        "EOFException occurred while reading the port number from pyspark.daemon's stdout.",
        "Error from python worker: (ModuleNotFoundError: No module named 'pyspark')",
        "ModuleNotFoundError: No module named 'tiering.union_read.spark_tasks'",
        "AttributeError: module 'tiering.union_read.spark_tasks' has no attribute 'read_command'"
      })
  void anErrorAboutPythonOnExecutorsNamesTheRemedy(String message) {
    LakewardException error =
        assertThrows(
            LakewardException.class,
            () -> TaskReaders.translated(new IOException(message), "sales.orders"));
    for (String part : new String[] {"sales.orders", "PYSPARK_PYTHON", "option python", "sales.`orders$lake`", "plain-name"}) {
      assertTrue(error.getMessage().contains(part), error.getMessage());
    }
  }

  @Test
  void theNameOfTheLakeCopyCanBePastedIntoAStatement() {
    LakewardException error =
        assertThrows(
            LakewardException.class,
            () ->
                TaskReaders.translated(
                    new IOException("No module named 'tiering'"), "my-shop.orders"));
    assertTrue(error.getMessage().contains("`my-shop`.`orders$lake`"), error.getMessage());
  }

  @Test
  void anyOtherErrorIsSparksOwn() {
    IOException error = new IOException("[LogTruncated] the log of sales.orders was cut");
    assertSame(error, TaskReaders.translated(error, "sales.orders"));
  }
}
