package io.lakeward.spark.call;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.Test;

class SparkUserTest {

  @Test
  void theUserOfATagIsFoundInLinearTime() {
    String tags = "SparkConnect_OperationTag_User_".repeat(100_000);
    Assertions.assertTimeoutPreemptively(
        Duration.ofSeconds(5), () -> assertEquals("", SparkUser.ofTags(tags)));
    assertEquals("me", SparkUser.ofTags("a,SparkConnect_OperationTag_User_me_Session_1_b"));
  }
}
