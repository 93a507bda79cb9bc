package io.lakeward.spark.error;

/**
 * Makes text from outside safe to show in an error: characters that could steer a terminal, or
 * hide, become escapes, and long text is cut. The same as tiering/redaction/visible_text.py.
 */
public final class VisibleText {

  /** Characters of one message. A message of the service has at most 2,048, and so has its hint. */
  static final int LIMIT = 8_192;

  private VisibleText() {}

  /** {@code text}, cut, with escapes for invisible characters except line ends and tabs. */
  static String of(String text) {
    String cut = text.length() <= LIMIT ? text : text.substring(0, LIMIT - 1) + "…";
    if (cut.codePoints().noneMatch(VisibleText::isUnseen)) {
      return cut;
    }
    StringBuilder shown = new StringBuilder(cut.length() + 16);
    cut.codePoints()
        .forEach(
            character -> {
              if (!isUnseen(character)) {
                shown.appendCodePoint(character);
              } else if (character < 0x10000) {
                shown.append("\\u%04x".formatted(character));
              } else {
                shown.append("\\U%08x".formatted(character));
              }
            });
    return shown.toString();
  }

  /** Whether {@code text} is one line of visible characters. */
  public static boolean isPlain(String text) {
    return text.codePoints()
        .noneMatch(character -> character == '\n' || character == '\t' || isUnseen(character));
  }

  private static boolean isUnseen(int character) {
    return switch (Character.getType(character)) {
      case Character.CONTROL -> character != '\n' && character != '\t';
      case Character.FORMAT,
              Character.SURROGATE,
              Character.LINE_SEPARATOR,
              Character.PARAGRAPH_SEPARATOR ->
          true;
      default -> false;
    };
  }
}
