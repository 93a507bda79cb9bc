package io.lakeward.spark.call;

import io.lakeward.spark.error.VisibleText;
import io.lakeward.spark.service.SparkStatement;
import io.lakeward.spark.version.SparkClasses;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.UUID;

/**
 * Creates the idempotency key of a CALL without one, and of a statement that defines a table, so
 * that a repeated request does not execute it again.
 *
 * <p>A client of Spark Connect sends the same operation again after the server restarted. So the
 * key is the tag of the operation there. An SQL script is one operation with many CALLs, also with
 * equal ones in a loop. So each CALL of a script gets a random key, as without Connect.
 */
public final class IdempotencyKeys {

  /** Below the limit of tiering/access/request_bounds.py, which refuses control characters. */
  private static final int LONGEST_TAG = 200;

  private IdempotencyKeys() {}

  /** The key of the statement that this thread runs. */
  public static String ofStatement() {
    return of(SparkStatement.tags(), SparkClasses.isInScript());
  }

  /** The key of a CALL of a statement with these tags, separated by commas. */
  static String of(String tags, boolean inScript) {
    return Arrays.stream(tags.split(","))
        .filter(tag -> !inScript && tag.startsWith(SparkStatement.CONNECT_OPERATION))
        .findFirst()
        .map(
            tag ->
                tag.length() <= LONGEST_TAG && VisibleText.isPlain(tag)
                    ? tag
                    : SparkStatement.CONNECT_OPERATION + digest(tag))
        .orElseGet(() -> UUID.randomUUID().toString());
  }

  private static String digest(String tag) {
    try {
      byte[] bytes = tag.getBytes(StandardCharsets.UTF_8);
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
    } catch (NoSuchAlgorithmException impossible) {
      throw new IllegalStateException("every Java has SHA-256", impossible);
    }
  }
}
