package io.lakeward.spark.thrift;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class NamePatternTest {

  @ParameterizedTest
  @CsvSource({
    ", orders, true",
    "'', orders, true",
    "%, orders, true",
    "o%, orders, true",
    "ORDERS, orders, true",
    "order_, orders, true",
    "order_, orders2, false",
    "order, orders, false",
    "order\\_s, order_s, true",
    "order\\_s, orderxs, false",
    "100\\%, 100%, true",
    "o.*, orders, false",
    "orders$lake, orders$lake, true",
    "orders\\, orders\\, true",
  })
  void matches(String pattern, String name, boolean expected) {
    assertEquals(expected, NamePattern.of(pattern).matches(name));
  }
}
