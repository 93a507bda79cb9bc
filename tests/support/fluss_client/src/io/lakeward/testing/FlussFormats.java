package io.lakeward.testing;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;
import org.apache.fluss.compression.ArrowCompressionInfo;
import org.apache.fluss.compression.ArrowCompressionType;
import org.apache.fluss.memory.UnmanagedPagedOutputView;
import org.apache.fluss.metadata.KvFormat;
import org.apache.fluss.metadata.Schema;
import org.apache.fluss.metadata.SchemaGetter;
import org.apache.fluss.metadata.SchemaInfo;
import org.apache.fluss.record.BinaryValue;
import org.apache.fluss.record.ChangeType;
import org.apache.fluss.record.DefaultLogRecordBatch;
import org.apache.fluss.record.FileLogProjection;
import org.apache.fluss.record.FileLogRecords;
import org.apache.fluss.record.LogRecord;
import org.apache.fluss.record.LogRecordBatch;
import org.apache.fluss.record.LogRecordBatchStatisticsCollector;
import org.apache.fluss.record.LogRecordReadContext;
import org.apache.fluss.record.MemoryLogRecords;
import org.apache.fluss.record.MemoryLogRecordsArrowBuilder;
import org.apache.fluss.record.MemoryLogRecordsCompactedBuilder;
import org.apache.fluss.record.MemoryLogRecordsIndexedBuilder;
import org.apache.fluss.record.MemoryLogRecordsRowBuilder;
import org.apache.fluss.record.ProjectionPushdownCache;
import org.apache.fluss.record.bytesview.BytesView;
import org.apache.fluss.row.BinaryRow;
import org.apache.fluss.row.InternalRow;
import org.apache.fluss.row.arrow.ArrowWriter;
import org.apache.fluss.row.arrow.ArrowWriterPool;
import org.apache.fluss.row.encode.KvValueLayout;
import org.apache.fluss.row.encode.RowEncoder;
import org.apache.fluss.row.encode.ValueEncoder;
import org.apache.fluss.shaded.arrow.org.apache.arrow.memory.BufferAllocator;
import org.apache.fluss.shaded.arrow.org.apache.arrow.memory.RootAllocator;
import org.apache.fluss.shaded.netty4.io.netty.buffer.ByteBuf;
import org.apache.fluss.types.DataTypeChecks;
import org.apache.fluss.types.RowType;
import org.apache.fluss.utils.CloseableIterator;

/**
 * Writes the bytes of Fluss's formats with Fluss's own classes. Each line of standard input is a
 * request of words between tabs; the answer is a line that begins with "&gt; ok" or "&gt; error".
 * Bytes are in base64. Rows come as a record batch of version 0.
 */
public final class FlussFormats {
  private static final int PAGE_BYTES = 64 * 1024;
  private static final int SCHEMA_ID = 1;

  private FlussFormats() {}

  public static void main(String[] arguments) throws IOException {
    PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    BufferedReader requests =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      try {
        answers.println("> ok " + answer(line.split("\t", -1)));
      } catch (Exception error) {
        error.printStackTrace();
        answers.println("> error " + error.toString().replaceAll("\\s+", " "));
      }
    }
  }

  private static String answer(String[] words) throws Exception {
    Rows rows = new Rows(Schema.fromJsonBytes(bytes(words[1])), bytes(words[2]));
    switch (words[0]) {
      case "batch":
        return text(
            batch(
                rows,
                Byte.parseByte(words[3]),
                Boolean.parseBoolean(words[4]),
                compression(words[5]),
                Boolean.parseBoolean(words[6])));
      case "packed":
        return text(packed(rows, KvFormat.valueOf(words[3]), Byte.parseByte(words[4])));
      case "project":
        return text(project(rows, compression(words[3]), words[4]));
      case "values":
        return String.join("\t", values(rows, KvFormat.valueOf(words[3]), Integer.parseInt(words[4])));
      default:
        throw new IllegalArgumentException("no such request: " + words[0]);
    }
  }

  /** Returns a record batch of a log in the format ARROW. */
  private static byte[] batch(
      Rows rows,
      byte version,
      boolean appendOnly,
      ArrowCompressionInfo compression,
      boolean withStatistics)
      throws Exception {
    try (BufferAllocator allocator = new RootAllocator(Long.MAX_VALUE);
        ArrowWriterPool writers = new ArrowWriterPool(allocator)) {
      MemoryLogRecordsArrowBuilder builder =
          builder(rows, version, appendOnly, compression, withStatistics, writers);
      rows.forEach(record -> builder.append(record.getChangeType(), record.getRow()));
      builder.setWriterState(7L, 3);
      builder.close();
      byte[] content = bytes(builder.build());
      DefaultLogRecordBatch batch = setServerFields(rows, content);
      if (batch.getStatisticsLength() > 0 != (withStatistics && rows.batch.getRecordCount() > 0)) {
        throw new IllegalStateException("statistics of " + batch.getStatisticsLength() + " bytes");
      }
      return content;
    }
  }

  /** Calls the constructor, because the public methods combine only some versions with statistics. */
  private static MemoryLogRecordsArrowBuilder builder(
      Rows rows,
      byte version,
      boolean appendOnly,
      ArrowCompressionInfo compression,
      boolean withStatistics,
      ArrowWriterPool writers)
      throws ReflectiveOperationException {
    ArrowWriter writer =
        writers.getOrCreateWriter(1L, SCHEMA_ID, Integer.MAX_VALUE, rows.type, compression);
    LogRecordBatchStatisticsCollector statistics =
        new LogRecordBatchStatisticsCollector(rows.type, rows.columnsWithStatistics());
    Constructor<?> constructor = MemoryLogRecordsArrowBuilder.class.getDeclaredConstructors()[0];
    constructor.setAccessible(true);
    return (MemoryLogRecordsArrowBuilder)
        constructor.newInstance(
            0L,
            SCHEMA_ID,
            version,
            writer,
            new UnmanagedPagedOutputView(PAGE_BYTES),
            appendOnly,
            withStatistics ? statistics : null);
  }

  /** Returns what a server sends of the given record batches for a projection, as words "0,2". */
  private static byte[] project(Rows rows, ArrowCompressionInfo compression, String columns)
      throws IOException {
    File file = File.createTempFile("fluss-log-", ".log");
    try (FileLogRecords log = FileLogRecords.open(file, true)) {
      log.append(rows.records);
      FileLogProjection projection = new FileLogProjection(new ProjectionPushdownCache());
      int[] places = List.of(columns.split(",")).stream().mapToInt(Integer::parseInt).toArray();
      projection.setCurrentProjection(1L, rows.schemas, compression, places);
      return bytes(
          projection.project(log.channel(), 0, log.sizeInBytes(), Integer.MAX_VALUE).getBytesView());
    } finally {
      file.delete();
    }
  }

  /** Returns a record batch of a log in the format INDEXED or COMPACTED. */
  private static byte[] packed(Rows rows, KvFormat format, byte version) throws Exception {
    var output = new UnmanagedPagedOutputView(PAGE_BYTES);
    MemoryLogRecordsRowBuilder<?> builder =
        format == KvFormat.INDEXED
            ? MemoryLogRecordsIndexedBuilder.builder(
                0L, SCHEMA_ID, Integer.MAX_VALUE, version, output)
            : MemoryLogRecordsCompactedBuilder.builder(
                0L, SCHEMA_ID, Integer.MAX_VALUE, version, output);
    rows.forEachEncoded(format, (record, row) -> append(builder, record.getChangeType(), row));
    builder.setWriterState(7L, 3);
    builder.close();
    byte[] content = bytes(builder.build());
    setServerFields(rows, content);
    return content;
  }

  @SuppressWarnings("unchecked")
  private static <T> void append(
      MemoryLogRecordsRowBuilder<T> builder, ChangeType type, BinaryRow row) throws Exception {
    builder.append(type, (T) row);
  }

  /** Sets what a server sets, to that of the record batch of the rows. The leader epoch is 9. */
  private static DefaultLogRecordBatch setServerFields(Rows rows, byte[] content) {
    DefaultLogRecordBatch batch = only(MemoryLogRecords.pointToBytes(content));
    batch.setBaseLogOffset(rows.batch.baseLogOffset());
    batch.setCommitTimestamp(rows.batch.commitTimestamp());
    if (batch.magic() >= 2) {
      batch.setLeaderEpoch(9);
    }
    batch.ensureValid();
    return batch;
  }

  /** Returns each row as the value of a KV snapshot. The tag of version 2 is its position - 1. */
  private static List<String> values(Rows rows, KvFormat format, int version) throws Exception {
    List<String> values = new ArrayList<>();
    KvValueLayout layout = KvValueLayout.fromVersion(version);
    ValueEncoder encoder =
        layout.hasValueTag()
            ? ValueEncoder.forLayout(layout, row -> values.size() - 1L)
            : ValueEncoder.forLayout(layout);
    rows.forEachEncoded(
        format,
        (record, row) ->
            values.add(text(encoder.encodeValue(new BinaryValue((short) SCHEMA_ID, row)))));
    return values;
  }

  private static ArrowCompressionInfo compression(String name) {
    ArrowCompressionType type = ArrowCompressionType.valueOf(name);
    return new ArrowCompressionInfo(type, type == ArrowCompressionType.ZSTD ? 3 : -1);
  }

  private static DefaultLogRecordBatch only(MemoryLogRecords records) {
    return (DefaultLogRecordBatch) records.batches().iterator().next();
  }

  private static byte[] bytes(BytesView view) {
    ByteBuf buffer = view.getByteBuf();
    byte[] content = new byte[buffer.readableBytes()];
    buffer.readBytes(content);
    return content;
  }

  private static byte[] bytes(String word) {
    return Base64.getDecoder().decode(word);
  }

  private static String text(byte[] content) {
    return Base64.getEncoder().encodeToString(content);
  }

  private interface Use {
    void of(LogRecord record) throws Exception;
  }

  private interface EncodedUse {
    void of(LogRecord record, BinaryRow row) throws Exception;
  }

  /** The rows of one record batch. */
  private static final class Rows {
    final RowType type;
    final OneSchema schemas;
    final MemoryLogRecords records;
    final LogRecordBatch batch;

    Rows(Schema schema, byte[] content) {
      type = schema.getRowType();
      schemas = new OneSchema(schema);
      records = MemoryLogRecords.pointToBytes(content);
      batch = only(records);
      batch.ensureValid();
    }

    int[] columnsWithStatistics() {
      return IntStream.range(0, type.getFieldCount())
          .filter(place -> DataTypeChecks.isSupportedStatisticsType(type.getTypeAt(place)))
          .toArray();
    }

    void forEach(Use use) throws Exception {
      try (LogRecordReadContext context =
              LogRecordReadContext.createArrowReadContext(type, SCHEMA_ID, schemas);
          CloseableIterator<LogRecord> all = batch.records(context)) {
        while (all.hasNext()) {
          use.of(all.next());
        }
      }
    }

    void forEachEncoded(KvFormat format, EncodedUse use) throws Exception {
      InternalRow.FieldGetter[] getters = InternalRow.createFieldGetters(type);
      try (RowEncoder encoder = RowEncoder.create(format, type)) {
        forEach(
            record -> {
              encoder.startNewRow();
              for (int place = 0; place < getters.length; place++) {
                encoder.encodeField(place, getters[place].getFieldOrNull(record.getRow()));
              }
              use.of(record, encoder.finishRow());
            });
      }
    }
  }

  private static final class OneSchema implements SchemaGetter {
    private final Schema schema;

    OneSchema(Schema schema) {
      this.schema = schema;
    }

    @Override
    public Schema getSchema(int schemaId) {
      return schema;
    }

    @Override
    public CompletableFuture<SchemaInfo> getSchemaInfoAsync(int schemaId) {
      return CompletableFuture.completedFuture(getLatestSchemaInfo());
    }

    @Override
    public SchemaInfo getLatestSchemaInfo() {
      return new SchemaInfo(schema, SCHEMA_ID);
    }

    @Override
    public void release() {}
  }
}
