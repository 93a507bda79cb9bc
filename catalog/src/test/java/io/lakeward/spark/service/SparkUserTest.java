package io.lakeward.spark.service;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.Optional;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.Test;

class SparkUserTest {

  private static final String BEHIND =
      "_Session_1c9b2e0e-6f0f-4a3e-8d2a-7f1d1f3b9b10"
          + "_Operation_2d9b2e0e-6f0f-4a3e-8d2a-7f1d1f3b9b11";

  @Test
  void theUserOfATagIsFoundInLinearTime() {
    String tags = "SparkConnect_OperationTag_User_".repeat(100_000);
    Assertions.assertTimeoutPreemptively(
        Duration.ofSeconds(5), () -> assertEquals("", SparkUser.ofTags(tags)));
    assertEquals("me", SparkUser.ofTags("a,SparkConnect_OperationTag_User_me" + BEHIND));
  }

  @Test
  void aTagOfTheUsersOwnDoesNotNameAnother() {
    String own =
        "SparkConnect_SessionTag_User_bob_Session_1_Tag_"
            + "SparkConnect_OperationTag_User_ann_Session_1_Operation_1";
    assertEquals("", SparkUser.ofTags(own));
    assertEquals("bob", SparkUser.ofTags(own + ",SparkConnect_OperationTag_User_bob" + BEHIND));
  }

  @Test
  void anIdThatLooksLikeTheRestOfTheTagIsWhole() {
    String tag = "SparkConnect_OperationTag_User_ann_Session_1_Operation_2" + BEHIND;
    assertEquals("ann_Session_1_Operation_2", SparkUser.ofTags(tag));
  }

  @Test
  void withoutConnectNoSessionIsAnybodys() {
    assertEquals(Optional.empty(), ConnectSessions.user("no such session"));
  }
}
