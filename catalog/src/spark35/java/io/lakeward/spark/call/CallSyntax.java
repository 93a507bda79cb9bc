package io.lakeward.spark.call;

import java.util.Optional;
import org.antlr.v4.runtime.CharStreams;
import org.antlr.v4.runtime.CodePointCharStream;
import org.antlr.v4.runtime.Token;
import org.antlr.v4.runtime.misc.Interval;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.parser.SqlBaseLexer;
import org.apache.spark.sql.catalyst.parser.UpperCaseCharStream;

/** The syntax of CALL, which Spark 3.5 lacks. */
public final class CallSyntax {

  private CallSyntax() {}

  /** Adds CALL to the SQL of a session. */
  public static void add(SparkSessionExtensions extensions) {
    extensions.injectParser(CallParser::new);
  }

  /**
   * The name and the arguments of a CALL; empty for another statement. Spark's own lexer skips the
   * comments before CALL, and the semicolons and comments behind it.
   */
  static Optional<String> nameAndArguments(String statement) {
    CodePointCharStream characters = CharStreams.fromString(statement);
    SqlBaseLexer lexer = new SqlBaseLexer(new UpperCaseCharStream(characters));
    lexer.removeErrorListeners();
    Token first = nextToken(lexer);
    if (!"CALL".equalsIgnoreCase(first.getText())) {
      return Optional.empty();
    }
    int end = first.getStopIndex();
    for (Token token = nextToken(lexer); token.getType() != Token.EOF; token = nextToken(lexer)) {
      end = token.getType() == SqlBaseLexer.SEMICOLON ? end : token.getStopIndex();
    }
    return Optional.of(characters.getText(Interval.of(first.getStopIndex() + 1, end)));
  }

  /** The next token that the parser sees, which is no blank and no comment. */
  private static Token nextToken(SqlBaseLexer lexer) {
    Token token = lexer.nextToken();
    while (token.getChannel() != Token.DEFAULT_CHANNEL) {
      token = lexer.nextToken();
    }
    return token;
  }
}
