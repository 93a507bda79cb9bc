package io.lakeward.spark.catalog;

import io.lakeward.spark.error.LakewardException;
import java.time.Duration;
import java.util.Optional;
import java.util.function.LongSupplier;

/**
 * The service's description, at most one second old. It is fetched again when a name is not in it,
 * so that a new table is visible at once. Thread-safe.
 */
final class DescriptionCache {

  /** Fetches a description. */
  @FunctionalInterface
  interface Source {
    ServiceDescription fetch() throws LakewardException;
  }

  /** Looks something up in a description. */
  @FunctionalInterface
  interface LookUp<T> {
    Optional<T> in(ServiceDescription description) throws LakewardException;
  }

  private static final long MAX_AGE_NANOS = Duration.ofSeconds(1).toNanos();

  private final Source source;
  private final LongSupplier nanoTime;
  private ServiceDescription cached;
  private long fetchedAt;

  DescriptionCache(Source source, LongSupplier nanoTime) {
    this.source = source;
    this.nanoTime = nanoTime;
  }

  synchronized ServiceDescription get() throws LakewardException {
    return isFresh() ? cached : fetch();
  }

  /** The result of {@code lookUp} in a description that is not older than a miss. */
  synchronized <T> Optional<T> find(LookUp<T> lookUp) throws LakewardException {
    boolean mayBeOld = isFresh();
    Optional<T> match = lookUp.in(get());
    return match.isPresent() || !mayBeOld ? match : lookUp.in(fetch());
  }

  /** Drops the cached description; the next look-up fetches. */
  synchronized void forget() {
    cached = null;
  }

  private boolean isFresh() {
    return cached != null && nanoTime.getAsLong() - fetchedAt < MAX_AGE_NANOS;
  }

  private ServiceDescription fetch() throws LakewardException {
    long startedAt = nanoTime.getAsLong();
    cached = source.fetch();
    fetchedAt = startedAt;
    return cached;
  }
}
