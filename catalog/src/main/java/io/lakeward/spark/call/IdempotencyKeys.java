package io.lakeward.spark.call;

import io.lakeward.spark.error.VisibleText;
import io.lakeward.spark.service.SparkStatement;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.UUID;
import org.apache.spark.sql.catalyst.SqlScriptingContextManager;

/**
 * Makes the idempotency key of a CALL without one, so that sending it again does not execute it
 * again.
 *
 * <p>Spark Connect runs a statement again when its client has lost track of it (the client sends
 * the same operation to a server that was restarted), so the key is the tag of the operation there.
 * An SQL script is one operation and may have many CALLs, also equal ones in a loop: each of them
 * gets a key of its own, as everywhere else.
 */
final class IdempotencyKeys {

  /** Below the limit of tiering/access/request_bounds.py, which refuses control characters. */
  private static final int LONGEST_TAG = 200;

  private IdempotencyKeys() {}

  /** The key of a CALL of the statement that this thread runs. */
  static String ofStatement() {
    return of(SparkStatement.tags(), SqlScriptingContextManager.get().isDefined());
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
