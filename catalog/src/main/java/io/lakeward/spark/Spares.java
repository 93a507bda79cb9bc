package io.lakeward.spark;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Function;

/**
 * What is dear to make and can serve only one at a time: whoever is done leaves it for the next. At
 * most one waits for each key, and of the keys only those used last. Thread-safe.
 */
final class Spares<K, V> {

  private final Function<K, V> maker;
  private final Map<K, V> idle;

  /** Keeps spares of at most {@code keys} keys. */
  Spares(int keys, Function<K, V> maker) {
    this.maker = maker;
    this.idle =
        new LinkedHashMap<>() {
          @Override
          protected boolean removeEldestEntry(Map.Entry<K, V> eldest) {
            return size() > keys;
          }
        };
  }

  /** One that nobody else has; made if none waits. */
  V take(K key) {
    V spare;
    synchronized (idle) {
      spare = idle.remove(key);
    }
    return spare != null ? spare : maker.apply(key);
  }

  /** Leaves one that {@link #take} gave; the giver has to let go of it. */
  void leave(K key, V spare) {
    synchronized (idle) {
      idle.put(key, spare);
    }
  }
}
