package io.lakeward.spark.call;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lakeward.spark.error.VisibleText;
import io.lakeward.spark.service.SparkStatement;
import org.junit.jupiter.api.Test;

class IdempotencyKeysTest {

  private static final String OPERATION =
      "SparkConnect_OperationTag_User_ann_Session_s-1_Operation_o-1";

  @Test
  void anOperationOfConnectIsItsKeyHoweverOftenItRuns() {
    String tags = "SparkConnect_Execute_User_ann_Session_s-1_Tag_mine," + OPERATION;

    assertEquals(OPERATION, IdempotencyKeys.of(tags, false));
    assertEquals(OPERATION, IdempotencyKeys.of(OPERATION + ",other", false));
  }

  @Test
  void anotherOperationIsAnotherKey() {
    assertNotEquals(
        IdempotencyKeys.of(OPERATION, false), IdempotencyKeys.of(OPERATION + "2", false));
  }

  @Test
  void aLongTagStaysUniqueAndBecomesShort() {
    String key = IdempotencyKeys.of(OPERATION + "x".repeat(300), false);
    String other = IdempotencyKeys.of(OPERATION + "x".repeat(301), false);

    assertTrue(key.length() <= 256);
    assertNotEquals(key, other);
    assertEquals(key, IdempotencyKeys.of(OPERATION + "x".repeat(300), false));
  }

  @Test
  void eachCallOfAScriptOrOutsideConnectHasAKeyOfItsOwn() {
    assertNotEquals(IdempotencyKeys.of(OPERATION, true), IdempotencyKeys.of(OPERATION, true));
    assertNotEquals(IdempotencyKeys.of("", false), IdempotencyKeys.of("", false));
    assertNotEquals(IdempotencyKeys.of("mine", false), IdempotencyKeys.of("mine", false));
  }

  @Test
  void aTagThatTheServiceWouldRefuseAsAKeyIsDigested() {
    String tag = SparkStatement.CONNECT_OPERATION + "User_a\u001bb_Session_1";
    String key = IdempotencyKeys.of(tag, false);
    assertTrue(VisibleText.isPlain(key));
    assertEquals(key, IdempotencyKeys.of(tag, false));
  }
}
