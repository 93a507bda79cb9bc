package io.lakeward.spark.fresh;

import com.google.protobuf.ByteString;
import io.lakeward.rpc.v1.NextBatchRequest;
import io.lakeward.rpc.v1.PbTablePath;
import io.lakeward.rpc.v1.PlanBatchRequest;
import io.lakeward.rpc.v1.ReadScan;
import io.lakeward.rpc.v1.ReadScan.Part;
import io.lakeward.spark.error.LakewardException;
import io.lakeward.spark.service.ServiceClient;
import io.lakeward.spark.service.TablePaths;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The batches of one run of a streaming query, which the service plans. */
final class StreamBatches {

  static final String STARTING_OFFSETS = "startingOffsets";
  static final String MAX_RECORDS = "maxRecordsPerTrigger";
  static final String FAIL_ON_DATA_LOSS = "failOnDataLoss";
  static final String IGNORE_DELETES = "ignoreDeletes";

  private final ServiceClient service;
  private final String user;
  private final PbTablePath path;
  private final Part part;
  private final CaseInsensitiveStringMap options;
  private final String stream = UUID.randomUUID().toString();

  /**
   * @param user for whom the table was loaded
   * @param part ROWS, or CHANGELOG
   * @param options of the query
   */
  StreamBatches(
      ServiceClient service,
      String user,
      PbTablePath path,
      Part part,
      CaseInsensitiveStringMap options) {
    this.service = service;
    this.user = user;
    this.path = path;
    this.part = part;
    this.options = options;
  }

  /** The limit of a batch that the query sets. Throws if an option has a wrong value. */
  ReadLimit limit() {
    options.getBoolean(FAIL_ON_DATA_LOSS, false);
    options.getBoolean(IGNORE_DELETES, false);
    String records = options.get(MAX_RECORDS);
    if (records == null) {
      return ReadLimit.allAvailable();
    }
    try {
      long limit = Long.parseLong(records);
      if (limit > 0) {
        return ReadLimit.maxRows(limit);
      }
    } catch (NumberFormatException noLong) {
      // It is refused with the others.
    }
    throw new IllegalArgumentException(
        "The option '%s' is '%s', and must be a whole number from 1 to %d"
            .formatted(MAX_RECORDS, records, Long.MAX_VALUE));
  }

  /** The end of the next batch; equal to {@code start} without anything new. */
  String next(String start, ReadLimit limit, String last) throws LakewardException {
    NextBatchRequest.Builder request =
        NextBatchRequest.newBuilder()
            .setTablePath(path)
            .setOffset(start)
            .setStartingOffsets(options.getOrDefault(STARTING_OFFSETS, "earliest"))
            .setChangelog(part == Part.CHANGELOG)
            .setApplicationId(SparkContext.getOrCreate().applicationId())
            .setStreamId(stream)
            .setFailOnDataLoss(options.getBoolean(FAIL_ON_DATA_LOSS, false));
    if (limit instanceof ReadMaxRows rows) {
      request.setMaxRecords(rows.maxRows());
    }
    if (last != null) {
      request.setLastOffset(last);
    }
    return service.nextBatch(user, request.build());
  }

  /** The readers of the tasks of a batch. */
  PartitionReaderFactory readers(StructType schema) {
    return TaskReaders.of(service.python(), schema, TablePaths.text(path), false);
  }

  /** The tasks of the batch between two offsets, which return the columns of {@code schema}. */
  List<ByteString> tasks(String start, String end, StructType schema) throws LakewardException {
    return service.planBatch(
        user,
        PlanBatchRequest.newBuilder()
            .setTablePath(path)
            .setStartOffset(start)
            .setEndOffset(end)
            .setScan(
                ReadScan.newBuilder()
                    .setPart(part)
                    .addAllColumns(Arrays.asList(schema.fieldNames())))
            .setApplicationId(SparkContext.getOrCreate().applicationId())
            .setStreamId(stream)
            .setFailOnDataLoss(options.getBoolean(FAIL_ON_DATA_LOSS, false))
            .setIgnoreDeletes(options.getBoolean(IGNORE_DELETES, false))
            .build());
  }
}
