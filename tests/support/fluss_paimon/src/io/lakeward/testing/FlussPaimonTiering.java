package io.lakeward.testing;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.fluss.config.Configuration;
import org.apache.fluss.lake.committer.CommittedLakeSnapshot;
import org.apache.fluss.lake.committer.CommitterInitContext;
import org.apache.fluss.lake.committer.LakeCommitter;
import org.apache.fluss.lake.paimon.PaimonLakeStorage;
import org.apache.fluss.lake.paimon.source.FlussRowAsPaimonRow;
import org.apache.fluss.lake.paimon.source.PaimonSplit;
import org.apache.fluss.lake.paimon.tiering.PaimonCommittable;
import org.apache.fluss.lake.paimon.tiering.PaimonWriteResult;
import org.apache.fluss.lake.source.LakeSource;
import org.apache.fluss.lake.writer.LakeTieringFactory;
import org.apache.fluss.lake.writer.LakeWriter;
import org.apache.fluss.lake.writer.WriterInitContext;
import org.apache.fluss.metadata.TableBucket;
import org.apache.fluss.metadata.TableDescriptor;
import org.apache.fluss.metadata.TableInfo;
import org.apache.fluss.metadata.TablePath;
import org.apache.fluss.record.ChangeType;
import org.apache.fluss.record.GenericRecord;
import org.apache.fluss.record.LogRecord;
import org.apache.fluss.row.BinaryString;
import org.apache.fluss.row.Decimal;
import org.apache.fluss.row.GenericRow;
import org.apache.fluss.row.InternalRow;
import org.apache.fluss.row.TimestampLtz;
import org.apache.fluss.row.TimestampNtz;
import org.apache.fluss.types.DataType;
import org.apache.fluss.types.DecimalType;
import org.apache.fluss.types.RowType;
import org.apache.fluss.utils.CloseableIterator;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.options.Options;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.FixedBucketRowKeyExtractor;

/**
 * The writer and the committer with which Fluss's Flink job tiers into Paimon, without Flink: commands come as lines of standard input,
 * their words between tabs, and each is answered by one line, "ok ..." or "error ...".
 */
public final class FlussPaimonTiering {
  private static final String NULL = "\\N";

  private final Map<String, String> properties;
  private final PaimonLakeStorage storage;
  private final LakeTieringFactory<PaimonWriteResult, PaimonCommittable> factory;
  private final List<PaimonWriteResult> results = new ArrayList<>();
  private TableInfo table;

  private FlussPaimonTiering(Configuration catalog) {
    properties = catalog.toMap();
    storage = new PaimonLakeStorage(catalog);
    factory = storage.createLakeTieringFactory();
  }

  /** Arguments: properties of the lake's catalog, each as key=value. */
  public static void main(String[] arguments) throws Exception {
    Configuration catalog = new Configuration();
    for (String argument : arguments) {
      String[] words = argument.split("=", 2);
      catalog.setString(words[0], words[1]);
    }
    FlussPaimonTiering tiering = new FlussPaimonTiering(catalog);
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String answer;
      try {
        answer = "ok " + tiering.run(line.split("\t", -1));
      } catch (Exception error) {
        Throwable cause = error;
        while (cause.getCause() != null) {
          cause = cause.getCause();
        }
        answer = "error " + cause;
      }
      System.out.println("> " + answer.replace('\n', ' '));
      System.out.flush();
    }
  }

  private String run(String[] words) throws Exception {
    switch (words[0]) {
      case "table": // path, id, description in base64
        String[] path = words[1].split("\\.", 2);
        TableDescriptor descriptor = TableDescriptor.fromJsonBytes(Base64.getDecoder().decode(words[3]));
        table = TableInfo.of(TablePath.of(path[0], path[1]), Long.parseLong(words[2]), 1, descriptor, 0, 0);
        results.clear();
        return "";
      case "write": // partition id or nothing, partition name or nothing, bucket; then rows as offset, milliseconds, kind and values
        results.add(write(words));
        return "";
      case "commit": // pairs key=value of the snapshot's properties
        return commit(words);
      case "missing": // the snapshot that Fluss knows, or nothing
        return missing(words[1].isEmpty() ? null : Long.valueOf(words[1]));
      case "bucket": // values of a row; answers the bucket that Paimon puts it into
        return bucket(words);
      case "read": // a snapshot; answers its rows as Fluss's own reader sees them: offset, milliseconds, kind and values
        return read(Long.parseLong(words[1]));
      default:
        throw new IllegalArgumentException(words[0]);
    }
  }

  private PaimonWriteResult write(String[] words) throws Exception {
    RowType types = table.getRowType();
    Long partitionId = words[1].isEmpty() ? null : Long.valueOf(words[1]);
    TableBucket bucket = new TableBucket(table.getTableId(), partitionId, Integer.parseInt(words[3]));
    String partition = words[2].isEmpty() ? null : words[2];
    try (LakeWriter<PaimonWriteResult> writer = factory.createLakeWriter(new Writing(table, bucket, partition))) {
      for (int at = 4; at < words.length; at += 3 + types.getFieldCount()) {
        GenericRow row = row(types, words, at + 3);
        ChangeType kind = ChangeType.valueOf(words[at + 2]);
        writer.write(new GenericRecord(Long.parseLong(words[at]), Long.parseLong(words[at + 1]), kind, row));
      }
      return writer.complete();
    }
  }

  private String commit(String[] words) throws Exception {
    Map<String, String> properties = new TreeMap<>();
    for (int at = 1; at < words.length; at++) {
      String[] pair = words[at].split("=", 2);
      properties.put(pair[0], pair[1]);
    }
    try (LakeCommitter<PaimonWriteResult, PaimonCommittable> committer = factory.createLakeCommitter(new Committing(table))) {
      PaimonCommittable committable = committer.toCommittable(new ArrayList<>(results));
      results.clear();
      return String.valueOf(committer.commit(committable, properties).getCommittedSnapshotId());
    }
  }

  private String missing(Long known) throws Exception {
    try (LakeCommitter<PaimonWriteResult, PaimonCommittable> committer = factory.createLakeCommitter(new Committing(table))) {
      CommittedLakeSnapshot snapshot = committer.getMissingLakeSnapshot(known);
      return snapshot == null ? "" : snapshot.getLakeSnapshotId() + " " + new TreeMap<>(snapshot.getSnapshotProperties());
    }
  }

  private String bucket(String[] words) throws Exception {
    GenericRow row = row(table.getRowType(), words, 1);
    Identifier path = Identifier.create(table.getTablePath().getDatabaseName(), table.getTablePath().getTableName());
    try (Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(Options.fromMap(properties)))) {
      FileStoreTable lakeTable = (FileStoreTable) catalog.getTable(path);
      FixedBucketRowKeyExtractor extractor = new FixedBucketRowKeyExtractor(lakeTable.schema());
      extractor.setRecord(new FlussRowAsPaimonRow(row, lakeTable.rowType()));
      return String.valueOf(extractor.bucket());
    }
  }

  private String read(long snapshot) throws Exception {
    RowType types = table.getRowType();
    LakeSource<PaimonSplit> source = storage.createLakeSource(table.getTablePath());
    List<String> rows = new ArrayList<>();
    for (PaimonSplit split : source.createPlanner(() -> snapshot).plan()) {
      try (CloseableIterator<LogRecord> records = source.createRecordReader(() -> split).read()) {
        while (records.hasNext()) {
          LogRecord record = records.next();
          StringBuilder row = new StringBuilder().append(record.logOffset()).append('\t').append(record.timestamp());
          row.append('\t').append(record.getChangeType());
          for (int column = 0; column < types.getFieldCount(); column++) {
            Object value = InternalRow.createFieldGetter(types.getTypeAt(column), column).getFieldOrNull(record.getRow());
            row.append('\t').append(value == null ? NULL : value);
          }
          rows.add(row.toString());
        }
      }
    }
    return String.join("\t;\t", rows);
  }

  private static GenericRow row(RowType types, String[] words, int first) {
    GenericRow row = new GenericRow(types.getFieldCount());
    for (int column = 0; column < types.getFieldCount(); column++) {
      row.setField(column, value(types.getTypeAt(column), words[first + column]));
    }
    return row;
  }

  private static Object value(DataType type, String text) {
    if (text.equals(NULL)) {
      return null;
    }
    switch (type.getTypeRoot()) {
      case BOOLEAN:
        return Boolean.valueOf(text);
      case TINYINT:
        return Byte.valueOf(text);
      case SMALLINT:
        return Short.valueOf(text);
      case INTEGER:
      case DATE:
      case TIME_WITHOUT_TIME_ZONE:
        return Integer.valueOf(text);
      case BIGINT:
        return Long.valueOf(text);
      case FLOAT:
        return Float.valueOf(text);
      case DOUBLE:
        return Double.valueOf(text);
      case CHAR:
      case STRING:
        return BinaryString.fromString(text);
      case BINARY:
      case BYTES:
        return Base64.getDecoder().decode(text);
      case DECIMAL:
        DecimalType decimal = (DecimalType) type;
        return Decimal.fromBigDecimal(new BigDecimal(text), decimal.getPrecision(), decimal.getScale());
      case TIMESTAMP_WITHOUT_TIME_ZONE: // milliseconds, and nanoseconds beside them
        return TimestampNtz.fromMillis(Long.parseLong(text.split(" ")[0]), Integer.parseInt(text.split(" ")[1]));
      case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
        return TimestampLtz.fromEpochMillis(Long.parseLong(text.split(" ")[0]), Integer.parseInt(text.split(" ")[1]));
      default:
        throw new IllegalArgumentException("no value of " + type);
    }
  }

  private static final class Writing implements WriterInitContext {
    private final TableInfo table;
    private final TableBucket bucket;
    private final String partition;

    Writing(TableInfo table, TableBucket bucket, String partition) {
      this.table = table;
      this.bucket = bucket;
      this.partition = partition;
    }

    @Override
    public TablePath tablePath() {
      return table.getTablePath();
    }

    @Override
    public TableBucket tableBucket() {
      return bucket;
    }

    @Override
    public String partition() {
      return partition;
    }

    @Override
    public TableInfo tableInfo() {
      return table;
    }
  }

  private static final class Committing implements CommitterInitContext {
    private final TableInfo table;

    Committing(TableInfo table) {
      this.table = table;
    }

    @Override
    public TablePath tablePath() {
      return table.getTablePath();
    }

    @Override
    public TableInfo tableInfo() {
      return table;
    }

    @Override
    public Configuration lakeTieringConfig() {
      return new Configuration();
    }

    @Override
    public Configuration flussClientConfig() {
      return new Configuration();
    }
  }
}
