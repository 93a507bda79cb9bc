package io.lakeward.spark.service;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;

import org.junit.jupiter.api.Test;

class ReusePoolTest {

  private int makeCount;
  private final ReusePool<String, Object> pool =
      new ReusePool<>(
          2,
          key -> {
            makeCount++;
            return new Object();
          });

  @Test
  void anObjectGivenBackIsUsedAgain() {
    Object first = pool.take("a");
    pool.giveBack("a", first);
    assertSame(first, pool.take("a"));
    assertEquals(1, makeCount);
  }

  @Test
  void anObjectInUseIsNotSharedWithAnotherThread() {
    Object first = pool.take("a");
    Object second = pool.take("a");
    assertNotSame(first, second);
    pool.giveBack("a", first);
    assertSame(first, pool.take("a"));
    assertNotSame(first, pool.take("a"));
  }

  @Test
  void onlyTheKeysUsedLastAreKept() {
    Object a = pool.take("a");
    Object b = pool.take("b");
    pool.giveBack("a", a);
    pool.giveBack("b", b);
    pool.giveBack("a", pool.take("a"));
    pool.giveBack("c", pool.take("c"));
    assertSame(a, pool.take("a"));
    assertNotSame(b, pool.take("b"));
  }
}
