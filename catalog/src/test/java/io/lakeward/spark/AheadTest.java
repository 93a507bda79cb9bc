package io.lakeward.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class AheadTest {

  private static final long PATIENCE_SECONDS = 30;

  private final CountDownLatch begun = new CountDownLatch(1);
  private final CountDownLatch ended = new CountDownLatch(1);

  /** Goes on until it is interrupted. */
  private String endless() {
    begun.countDown();
    try {
      new CountDownLatch(1).await();
      return "never";
    } catch (InterruptedException interrupted) {
      ended.countDown();
      return "interrupted";
    }
  }

  @Test
  void theWorkIsDoneBeforeAnybodyWaits() throws Exception {
    Ahead<String> work =
        Ahead.begin(
            () -> {
              begun.countDown();
              return Thread.currentThread().getName();
            });
    assertTrue(begun.await(PATIENCE_SECONDS, TimeUnit.SECONDS));
    assertEquals("lakeward-ahead", work.await());
    assertEquals("lakeward-ahead", work.await());
  }

  @Test
  void errorsPassAsTheyAre() {
    LakewardException ours = new LakewardException("the service is away");
    IllegalArgumentException other = new IllegalArgumentException("a defect");
    assertSame(
        ours, assertThrows(LakewardException.class, () -> Ahead.begin(() -> fail(ours)).await()));
    assertSame(
        other,
        assertThrows(IllegalArgumentException.class, () -> Ahead.begin(() -> fail(other)).await()));
  }

  @Test
  void anInterruptOfTheWaitEndsTheWork() throws Exception {
    Ahead<String> work = Ahead.begin(this::endless);
    assertTrue(begun.await(PATIENCE_SECONDS, TimeUnit.SECONDS));
    Thread.currentThread().interrupt();
    LakewardException error = assertThrows(LakewardException.class, work::await);
    assertTrue(Thread.interrupted());
    assertEquals("the statement was cancelled", error.getMessage());
    assertTrue(ended.await(PATIENCE_SECONDS, TimeUnit.SECONDS));
  }

  private static <E extends Exception> String fail(E error) throws E {
    throw error;
  }
}
