package io.lakeward.spark;

import java.time.Duration;
import java.util.Optional;
import java.util.function.LongSupplier;

/**
 * The service's description, at most one second old; fetched again when something is not found in
 * it, so that a new table is seen at once. Thread-safe.
 */
final class DescriptionCache {

  /** Fetches a description. */
  @FunctionalInterface
  interface Source {
    Description fetch() throws LakewardException;
  }

  /** Looks something up in a description. */
  @FunctionalInterface
  interface LookUp<T> {
    Optional<T> in(Description description) throws LakewardException;
  }

  private static final long MAX_AGE_NANOS = Duration.ofSeconds(1).toNanos();

  private final Source source;
  private final LongSupplier nanoTime;
  private Description cached;
  private long fetchedAt;

  DescriptionCache(Source source, LongSupplier nanoTime) {
    this.source = source;
    this.nanoTime = nanoTime;
  }

  synchronized Description get() throws LakewardException {
    return isFresh() ? cached : fetch();
  }

  /** What {@code lookUp} finds now. */
  synchronized <T> Optional<T> find(LookUp<T> lookUp) throws LakewardException {
    boolean mayBeOld = isFresh();
    Optional<T> found = lookUp.in(get());
    return found.isPresent() || !mayBeOld ? found : lookUp.in(fetch());
  }

  /** Makes the next question fetch. */
  synchronized void forget() {
    cached = null;
  }

  private boolean isFresh() {
    return cached != null && nanoTime.getAsLong() - fetchedAt < MAX_AGE_NANOS;
  }

  private Description fetch() throws LakewardException {
    long asked = nanoTime.getAsLong();
    cached = source.fetch();
    fetchedAt = asked;
    return cached;
  }
}
