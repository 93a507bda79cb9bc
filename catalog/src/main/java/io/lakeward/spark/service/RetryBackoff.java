package io.lakeward.spark.service;

import java.time.Duration;
import java.util.function.LongSupplier;

/**
 * Pauses between attempts to reach a service that does not answer, until a limit. For one call of
 * one thread.
 */
final class RetryBackoff {

  /** Sleeps that long. */
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

  RetryBackoff(Duration limit, LongSupplier nanoTime, Sleeper sleeper) {
    this.limitNanos = limit.toNanos();
    this.nanoTime = nanoTime;
    this.sleeper = sleeper;
  }

  /** Starts anew, after a sign of life of the service. */
  void reset() {
    silentSince = null;
    pauseMillis = FIRST_PAUSE_MILLIS;
  }

  /**
   * Waits before the next attempt. False if there should be none: the service has been silent for
   * too long, or the thread was interrupted.
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
