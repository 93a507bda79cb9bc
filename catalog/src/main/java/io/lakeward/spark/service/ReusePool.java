package io.lakeward.spark.service;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Function;

/**
 * Keeps idle objects that are expensive to create and serve one thread at a time. It keeps at most
 * one object per key, and only for the keys used last. Thread-safe.
 */
final class ReusePool<K, V> {

  private final Function<K, V> maker;
  private final Map<K, V> idle;

  /** Keeps objects of at most {@code keys} keys. */
  ReusePool(int keys, Function<K, V> maker) {
    this.maker = maker;
    this.idle =
        new LinkedHashMap<>() {
          @Override
          protected boolean removeEldestEntry(Map.Entry<K, V> eldest) {
            return size() > keys;
          }
        };
  }

  /** An object that no other thread has: the idle one of the key, or a new one. */
  V take(K key) {
    V value;
    synchronized (idle) {
      value = idle.remove(key);
    }
    return value != null ? value : maker.apply(key);
  }

  /** Returns an object that {@link #take} gave; the caller must not use it afterwards. */
  void giveBack(K key, V value) {
    synchronized (idle) {
      idle.put(key, value);
    }
  }
}
