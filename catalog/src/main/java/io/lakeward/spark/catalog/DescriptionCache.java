package io.lakeward.spark.catalog;

import io.lakeward.spark.error.LakewardException;
import java.time.Duration;
import java.util.Optional;
import java.util.function.LongSupplier;
import java.util.function.Supplier;

/**
 * The service's description for the user of the statement, at most one second old. If a name is
 * not in it, the description is fetched again, so that a new table is visible at once. Thread-safe.
 */
final class DescriptionCache {

  /** Fetches the description for a user. */
  @FunctionalInterface
  interface Source {
    ServiceDescription fetch(String user) throws LakewardException;
  }

  /** Looks something up in a description. */
  @FunctionalInterface
  interface LookUp<T> {
    Optional<T> in(ServiceDescription description) throws LakewardException;
  }

  private static final long MAX_AGE_NANOS = Duration.ofSeconds(1).toNanos();

  private final Source source;
  private final Supplier<String> users;
  private final LongSupplier nanoTime;
  private final PerUser<Entry> entries = new PerUser<>();

  /** {@code users} returns the user of the statement. */
  DescriptionCache(Source source, Supplier<String> users, LongSupplier nanoTime) {
    this.source = source;
    this.users = users;
    this.nanoTime = nanoTime;
  }

  ServiceDescription get() throws LakewardException {
    return entry().get();
  }

  /** The result of {@code lookUp}. If a cached description has none, a new one is fetched. */
  <T> Optional<T> find(LookUp<T> lookUp) throws LakewardException {
    return entry().find(lookUp);
  }

  /** Drops the cached descriptions; the next look-up fetches. */
  void forget() {
    synchronized (entries) {
      entries.clear();
    }
  }

  private Entry entry() {
    String user = users.get();
    synchronized (entries) {
      return entries.of(user, () -> new Entry(user));
    }
  }

  /** The description for one user. Other users do not wait while it is fetched. */
  private final class Entry {

    private final String user;
    private ServiceDescription cached;
    private long fetchedAt;

    Entry(String user) {
      this.user = user;
    }

    synchronized ServiceDescription get() throws LakewardException {
      return isFresh() ? cached : fetch();
    }

    synchronized <T> Optional<T> find(LookUp<T> lookUp) throws LakewardException {
      boolean mayBeOld = isFresh();
      Optional<T> match = lookUp.in(get());
      return match.isPresent() || !mayBeOld ? match : lookUp.in(fetch());
    }

    private boolean isFresh() {
      return cached != null && nanoTime.getAsLong() - fetchedAt < MAX_AGE_NANOS;
    }

    private ServiceDescription fetch() throws LakewardException {
      long startedAt = nanoTime.getAsLong();
      cached = source.fetch(user);
      fetchedAt = startedAt;
      return cached;
    }
  }
}
