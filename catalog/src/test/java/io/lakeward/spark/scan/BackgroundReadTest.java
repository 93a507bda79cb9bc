package io.lakeward.spark.scan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lakeward.spark.error.LakewardException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class BackgroundReadTest {

  private static final long TIMEOUT_SECONDS = 30;

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
  void theReadIsDoneBeforeItsResultIsNeeded() throws Exception {
    BackgroundRead<String> read =
        BackgroundRead.begin(
            () -> {
              begun.countDown();
              return Thread.currentThread().getName();
            });
    assertTrue(begun.await(TIMEOUT_SECONDS, TimeUnit.SECONDS));
    assertEquals("lakeward-read", read.await());
    assertEquals("lakeward-read", read.await());
  }

  @Test
  void errorsPassAsTheyAre() {
    LakewardException ours = new LakewardException("the service is away");
    IllegalArgumentException other = new IllegalArgumentException("a defect");
    assertSame(
        ours,
        assertThrows(
            LakewardException.class, () -> BackgroundRead.begin(() -> fail(ours)).await()));
    assertSame(
        other,
        assertThrows(
            IllegalArgumentException.class, () -> BackgroundRead.begin(() -> fail(other)).await()));
  }

  @Test
  void anInterruptOfTheWaitEndsTheRead() throws Exception {
    BackgroundRead<String> read = BackgroundRead.begin(this::endless);
    assertTrue(begun.await(TIMEOUT_SECONDS, TimeUnit.SECONDS));
    Thread.currentThread().interrupt();
    LakewardException error = assertThrows(LakewardException.class, read::await);
    assertTrue(Thread.interrupted());
    assertEquals("the statement was cancelled", error.getMessage());
    assertTrue(ended.await(TIMEOUT_SECONDS, TimeUnit.SECONDS));
  }

  private static <E extends Exception> String fail(E error) throws E {
    throw error;
  }
}
