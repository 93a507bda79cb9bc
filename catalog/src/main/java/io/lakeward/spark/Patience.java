package io.lakeward.spark;

import java.time.Duration;
import java.util.function.LongSupplier;

/**
 * For how long, and how often, to ask again a service that does not answer. For one call, by one
 * thread.
 */
final class Patience {

  /** Waits that long. */
  @FunctionalInterface
  interface Sleeper {
    void sleep(long millis) throws InterruptedException;
  }

  private static final long FIRST_PAUSE_MILLIS = 100;
  private static final long LONGEST_PAUSE_MILLIS = 2_000;

  private final long limitNanos;
  private final LongSupplier nanoTime;
  private final Sleeper sleeper;
  private Long silentSince;
  private long pauseMillis = FIRST_PAUSE_MILLIS;

  Patience(Duration limit, LongSupplier nanoTime, Sleeper sleeper) {
    this.limitNanos = limit.toNanos();
    this.nanoTime = nanoTime;
    this.sleeper = sleeper;
  }

  /** The service was heard: its silence, if any, is over. */
  void renew() {
    silentSince = null;
    pauseMillis = FIRST_PAUSE_MILLIS;
  }

  /**
   * Waits before the next attempt; false if there should be none: too long a silence, or an
   * interrupt.
   */
  boolean pause() {
    long now = nanoTime.getAsLong();
    if (silentSince == null) {
      silentSince = now;
    }
    if (now - silentSince >= limitNanos) {
      return false;
    }
    try {
      sleeper.sleep(pauseMillis);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      return false;
    }
    pauseMillis = Math.min(2 * pauseMillis, LONGEST_PAUSE_MILLIS);
    return true;
  }
}
