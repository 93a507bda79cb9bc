package io.lakeward.spark.service;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class RetryBackoffTest {

  private long nowMillis;
  private final List<Long> pauses = new ArrayList<>();
  private final RetryBackoff backoff =
      new RetryBackoff(
          Duration.ofSeconds(10),
          () -> Duration.ofMillis(nowMillis).toNanos(),
          millis -> {
            pauses.add(millis);
            nowMillis += millis;
          });

  @Test
  void pausesGrowUntilTheLimit() {
    while (backoff.pause()) {}
    assertEquals(List.of(100L, 200L, 400L, 800L, 1_600L, 2_000L, 2_000L, 2_000L, 2_000L), pauses);
  }

  @Test
  void aSignOfLifeStartsTheBackoffAnew() {
    assertTrue(backoff.pause());
    nowMillis += 9_950;
    assertFalse(backoff.pause());
    backoff.reset();
    assertTrue(backoff.pause());
    assertEquals(List.of(100L, 100L), pauses);
  }

  @Test
  void timeSpentInAnAnsweredCallDoesNotCount() {
    nowMillis += 3_600_000;
    assertTrue(backoff.pause());
  }

  @Test
  void anInterruptEndsTheBackoff() {
    RetryBackoff interrupted =
        new RetryBackoff(
            Duration.ofSeconds(10),
            System::nanoTime,
            millis -> {
              throw new InterruptedException();
            });
    assertFalse(interrupted.pause());
    assertTrue(Thread.interrupted(), "the interrupt is kept for the caller");
  }
}
