package io.lakeward.spark.write;

import io.lakeward.spark.call.IdempotencyKeys;
import io.lakeward.spark.service.SparkStatement;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.UUID;
import org.apache.spark.SparkContext;

/**
 * Names the statements that write. A client of Spark Connect sends an operation again after the
 * server restarted, and its statement then gets the name that it had before, so that it writes
 * nothing twice. Any other statement has a name that never comes again.
 */
final class StatementIds {

  /** Operations of Spark Connect whose writes are counted. */
  private static final int KEPT_OPERATIONS = 10_000;

  /** Spark's name of the property with the query of a stream. */
  private static final String STREAM = "sql.streaming.queryId";

  /** The number of writes of each operation so far. An operation may have several INSERTs. */
  private static final Map<String, Integer> WRITES =
      new LinkedHashMap<>(16, 0.75f, true) {
        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Integer> eldest) {
          return size() > KEPT_OPERATIONS;
        }
      };

  private StatementIds() {}

  /** The id of the next write of the statement that this thread runs. */
  static String next() {
    String key = IdempotencyKeys.ofStatement();
    boolean isOfStream = SparkContext.getOrCreate().getLocalProperty(STREAM) != null;
    if (!key.startsWith(SparkStatement.CONNECT_OPERATION) || isOfStream) {
      return UUID.randomUUID().toString();
    }
    // The tag has the user, the session and the operation, and may be long.
    String digest = UUID.nameUUIDFromBytes(key.getBytes(StandardCharsets.UTF_8)).toString();
    synchronized (WRITES) {
      return digest + "." + WRITES.merge(digest, 1, Integer::sum);
    }
  }
}
