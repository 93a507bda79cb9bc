package io.lakeward.spark.thrift;

import java.util.regex.Pattern;

/**
 * A pattern of names in a metadata call of JDBC: {@code %} stands for any characters, {@code _} for
 * one, and a backslash before either for the character itself. Matches names in any case, as Spark
 * resolves them.
 */
final class NamePattern {

  private static final char ESCAPE = '\\';

  private final Pattern regex;

  private NamePattern(Pattern regex) {
    this.regex = regex;
  }

  /** The pattern that a client sent; null and the empty text match every name. */
  static NamePattern of(String jdbc) {
    String pattern = jdbc == null || jdbc.isEmpty() ? "%" : jdbc;
    StringBuilder regex = new StringBuilder();
    for (int i = 0; i < pattern.length(); i++) {
      char character = pattern.charAt(i);
      if (character == ESCAPE && i + 1 < pattern.length()) {
        i++;
        regex.append(Pattern.quote(pattern.substring(i, i + 1)));
      } else if (character == '%') {
        regex.append(".*");
      } else if (character == '_') {
        regex.append('.');
      } else {
        regex.append(Pattern.quote(String.valueOf(character)));
      }
    }
    int flags = Pattern.CASE_INSENSITIVE | Pattern.UNICODE_CASE | Pattern.DOTALL;
    return new NamePattern(Pattern.compile(regex.toString(), flags));
  }

  boolean matches(String name) {
    return regex.matcher(name).matches();
  }
}
