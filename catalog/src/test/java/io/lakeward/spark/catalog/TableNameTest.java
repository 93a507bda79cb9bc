package io.lakeward.spark.catalog;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.lakeward.spark.catalog.TableName.Rows;
import org.junit.jupiter.api.Test;

class TableNameTest {

  @Test
  void aSuffixChoosesTheRows() {
    assertEquals(new TableName("orders", Rows.PLAIN), TableName.of("orders"));
    assertEquals(new TableName("orders", Rows.LAKE), TableName.of("orders$lake"));
    assertEquals(new TableName("Orders", Rows.CHANGELOG), TableName.of("Orders$CHANGELOG"));
  }

  @Test
  void aSuffixAloneOrAnotherOneIsAName() {
    assertEquals(new TableName("$lake", Rows.PLAIN), TableName.of("$lake"));
    assertEquals(new TableName("orders$snapshots", Rows.PLAIN), TableName.of("orders$snapshots"));
  }
}
