package io.lakeward.spark.error;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class VisibleTextTest {

  @Test
  void whatSteersATerminalOrHidesIsShown() {
    String hostile = "a\u001b[2Jb\u009bc\u202ed\u200be\u2028f\r\ud800g\0";
    assertEquals(
        "a\\u001b[2Jb\\u009bc\\u202ed\\u200be\\u2028f\\u000d\\ud800g\\u0000",
        VisibleText.of(hostile));
    assertEquals("\\U000e0041", VisibleText.of(Character.toString(0xE0041)));
  }

  @Test
  void linesAndLettersStayAsTheyAre() {
    String text = "two\nlines\tof 北京 Ελληνικά \ud83d\ude00";
    assertEquals(text, VisibleText.of(text));
    assertFalse(VisibleText.isPlain(text));
    assertTrue(VisibleText.isPlain("北京 -x"));
  }

  @Test
  void errorsOfThePluginAreCleanAndBounded() {
    LakewardException error = new LakewardException("x\u001b[2J" + "y".repeat(3_000_000));
    assertFalse(error.getMessage().contains("\u001b"));
    assertTrue(error.getMessage().length() < 2 * VisibleText.LIMIT);
    LakewardException unknown =
        LakewardException.unknown(
            LakewardException.Missing.SCHEMA_NOT_FOUND, "n\u001b", "no such\u001b");
    assertFalse(unknown.getMessage().contains("\u001b"));
    assertFalse(unknown.getMessageParameters().get("schemaName").contains("\u001b"));
  }
}
