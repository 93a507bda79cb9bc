package io.lakeward.spark;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.UUID;
import org.apache.spark.sql.catalyst.SqlScriptingContextManager;

/**
 * Names a CALL whose user gave no key, so that sending it again does not do it again.
 *
 * <p>Spark Connect runs a statement again when it lost track of it (its client sends the same
 * operation to a server that was restarted), so there the key is the tag of the operation. An SQL
 * script is one operation and may hold many CALLs, also equal ones in a loop: each gets a key of
 * its own there, as everywhere else.
 */
final class IdempotencyKeys {

  /** Below the limit of the service (tiering/wire/request_bounds.py), which refuses control characters. */
  private static final int LONGEST_TAG = 200;

  private IdempotencyKeys() {}

  /** The key of a CALL of the statement that this thread runs. */
  static String ofStatement() {
    return of(StatementTags.current(), SqlScriptingContextManager.get().isDefined());
  }

  /** The same for a statement with these tags, parted by commas. */
  static String of(String tags, boolean inScript) {
    return Arrays.stream(tags.split(","))
        .filter(tag -> !inScript && tag.startsWith(StatementTags.CONNECT_OPERATION))
        .findFirst()
        .map(
            tag ->
                tag.length() <= LONGEST_TAG && VisibleText.isPlain(tag)
                    ? tag
                    : StatementTags.CONNECT_OPERATION + digest(tag))
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
