package io.lakeward.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class PatienceTest {

  private long nowMillis;
  private final List<Long> pauses = new ArrayList<>();
  private final Patience patience =
      new Patience(
          Duration.ofSeconds(10),
          () -> Duration.ofMillis(nowMillis).toNanos(),
          millis -> {
            pauses.add(millis);
            nowMillis += millis;
          });

  @Test
  void pausesGrowUntilTheLimit() {
    while (patience.pause()) {}
    assertEquals(List.of(100L, 200L, 400L, 800L, 1_600L, 2_000L, 2_000L, 2_000L, 2_000L), pauses);
  }

  @Test
  void aSignOfLifeStartsThePatienceAnew() {
    assertTrue(patience.pause());
    nowMillis += 9_950;
    assertFalse(patience.pause());
    patience.renew();
    assertTrue(patience.pause());
    assertEquals(List.of(100L, 100L), pauses);
  }

  @Test
  void timeSpentInAnAnsweredCallDoesNotCount() {
    nowMillis += 3_600_000;
    assertTrue(patience.pause());
  }

  @Test
  void anInterruptEndsIt() {
    Patience interrupted =
        new Patience(
            Duration.ofSeconds(10),
            System::nanoTime,
            millis -> {
              throw new InterruptedException();
            });
    assertFalse(interrupted.pause());
    assertTrue(Thread.interrupted(), "the interrupt is kept for the caller");
  }
}
