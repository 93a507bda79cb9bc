package io.lakeward.spark.fresh;

import static io.lakeward.spark.error.LakewardException.unchecked;

import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.types.StructType;

/**
 * A table as a stream: first the rows of its lake copy, then those of the log. The service plans
 * each batch from the offsets alone, so a batch that runs again has the same rows. Python tasks
 * return them.
 */
final class FreshStream implements MicroBatchStream, SupportsTriggerAvailableNow {

  /**
   * Offset of a stream that has not begun. The end of its first batch tells where it began, because
   * a checkpoint has only the ends of batches.
   */
  private static final String BEGINNING = "{\"v\":1}";

  private final StreamBatches batches;
  private final StructType schema;
  private boolean ends;
  private String last;

  /** A stream of rows with the columns {@code schema}. */
  FreshStream(StreamBatches batches, StructType schema) {
    this.batches = batches;
    this.schema = schema;
  }

  /** A position of the stream, in the JSON of the service. Two with equal JSON are equal. */
  private static final class Position extends Offset {
    private final String json;

    private Position(String json) {
      this.json = json;
    }

    @Override
    public String json() {
      return json;
    }
  }

  @Override
  public Offset initialOffset() {
    return new Position(BEGINNING);
  }

  @Override
  public Offset deserializeOffset(String json) {
    return new Position(json);
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return batches.limit();
  }

  /** Ends the stream at what exists when the next batch is planned. */
  @Override
  public void prepareForTriggerAvailableNow() {
    ends = true;
    last = null;
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    if (ends && last == null) {
      last = unchecked(() -> batches.next(start.json(), ReadLimit.allAvailable(), null));
    }
    return new Position(unchecked(() -> batches.next(start.json(), limit, last)));
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("Spark calls the method with a start and a limit.");
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    return PythonRunner.partitions(
        unchecked(() -> batches.tasks(start.json(), end.json(), schema)), null);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return batches.readers(schema);
  }

  /** Each call of the service moves what it holds, so a commit has nothing to tell. */
  @Override
  public void commit(Offset end) {}

  /** The service holds what the stream needs for some time, in which the query can start again. */
  @Override
  public void stop() {}
}
