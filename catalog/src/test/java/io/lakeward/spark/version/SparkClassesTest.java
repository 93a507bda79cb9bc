package io.lakeward.spark.version;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lakeward.spark.scan.ScalaSequences;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.junit.jupiter.api.Test;
import scala.Option;
import scala.collection.immutable.Seq;

/** Tested with a class of Spark that declares defaults, as those do that versions change. */
class SparkClassesTest {

  private static final Seq<Attribute> NO_COLUMNS = ScalaSequences.of();

  @Test
  void parametersThatANewerSparkAddsGetTheirDefaults() {
    LocalRelation relation = SparkClasses.create(LocalRelation.class, NO_COLUMNS);

    assertEquals(new LocalRelation(NO_COLUMNS, ScalaSequences.of(), false, Option.empty()), relation);
  }

  @Test
  void parametersThatAnOlderSparkLacksAreLeftOut() {
    LocalRelation relation =
        SparkClasses.create(
            LocalRelation.class, NO_COLUMNS, ScalaSequences.of(), true, Option.empty(), "newer");

    assertTrue(relation.isStreaming());
  }

  @Test
  void aClassThatChangedInAnotherWayIsNamed() {
    IllegalStateException error =
        assertThrows(
            IllegalStateException.class,
            () -> SparkClasses.create(LocalRelation.class, "no columns"));

    assertTrue(error.getMessage().contains(LocalRelation.class.getName()), error.getMessage());
  }

  @Test
  void aThreadWithoutAScriptIsInNone() {
    assertFalse(SparkClasses.isInScript());
  }
}
