package io.lakeward.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;

import org.junit.jupiter.api.Test;

class SparesTest {

  private int made;
  private final Spares<String, Object> spares =
      new Spares<>(
          2,
          key -> {
            made++;
            return new Object();
          });

  @Test
  void whatWasLeftServesTheNext() {
    Object first = spares.take("a");
    spares.leave("a", first);
    assertSame(first, spares.take("a"));
    assertEquals(1, made);
  }

  @Test
  void whatIsInUseServesNobodyElse() {
    Object first = spares.take("a");
    Object second = spares.take("a");
    assertNotSame(first, second);
    spares.leave("a", first);
    assertSame(first, spares.take("a"));
    assertNotSame(first, spares.take("a"));
  }

  @Test
  void ofManyKeysThoseUsedLastAreKept() {
    Object a = spares.take("a");
    Object b = spares.take("b");
    spares.leave("a", a);
    spares.leave("b", b);
    spares.leave("a", spares.take("a"));
    spares.leave("c", spares.take("c"));
    assertSame(a, spares.take("a"));
    assertNotSame(b, spares.take("b"));
  }
}
