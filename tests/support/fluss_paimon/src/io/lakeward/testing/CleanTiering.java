package io.lakeward.testing;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.paimon.KeyValue;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericArray;
import org.apache.paimon.data.GenericMap;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.manifest.ManifestCommittable;
import org.apache.paimon.options.Options;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.RowKeyExtractor;
import org.apache.paimon.table.sink.TableCommitImpl;
import org.apache.paimon.table.sink.TableWriteImpl;
import org.apache.paimon.types.ArrayType;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DecimalType;
import org.apache.paimon.types.MapType;
import org.apache.paimon.types.RowKind;
import org.apache.paimon.types.RowType;

/**
 * What the writers and the committer of Fluss 1.0 do to a Paimon table without system columns, by Paimon's own: commands come as lines of
 * standard input, their words between tabs, and each is answered by one line, "> ok ..." or "> error ...".
 */
public final class CleanTiering {
  private static final String USER = "__fluss_lake_tiering";
  private static final String NULL = "\\N";

  private final Catalog catalog;
  private final Map<String, Round> rounds = new HashMap<>();

  private CleanTiering(Catalog catalog) {
    this.catalog = catalog;
  }

  /** Argument: the warehouse. */
  public static void main(String[] arguments) throws Exception {
    Options options = new Options();
    options.set("warehouse", arguments[0]);
    try (Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(options))) {
      CleanTiering tiering = new CleanTiering(catalog);
      BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        String answer;
        try {
          answer = "ok " + tiering.run(line.split("\t", -1));
        } catch (Exception error) {
          error.printStackTrace();
          answer = "error " + error;
        }
        System.out.println("> " + answer.replace('\n', ' '));
        System.out.flush();
      }
    }
  }

  private String run(String[] words) throws Exception {
    switch (words[0]) {
      case "begin": // round, table, bytes of its memory
        rounds.put(words[1], new Round((FileStoreTable) catalog.getTable(Identifier.fromString(words[2])), words[3]));
        return "";
      case "write": // round, bucket; then rows as kind and values
        rounds.get(words[1]).write(Integer.parseInt(words[2]), words);
        return "";
      case "commit": // round, whether it compacts, path of its offsets
        return rounds.remove(words[1]).commit(Boolean.parseBoolean(words[2]), words[3]);
      default:
        throw new IllegalArgumentException(words[0]);
    }
  }

  /** One round: it has looked at the table when it began. */
  private static final class Round {
    private final FileStoreTable table;
    private final TableWriteImpl<Object> write;
    private final RowKeyExtractor keys;
    private final Set<Integer> buckets = new TreeSet<>();

    @SuppressWarnings("unchecked")
    Round(FileStoreTable table, String bufferBytes) throws Exception {
      Map<String, String> options = new HashMap<>();
      options.put("write-only", "false");
      options.put("num-sorted-run.compaction-trigger", "100");
      options.put("write-buffer-size", bufferBytes);
      options.put("write-buffer-spillable", "false");
      options.put("page-size", "1 kb");
      this.table = table.copy(options);
      String temporary = Files.createTempDirectory("clean-tiering").toString();
      write = (TableWriteImpl<Object>) this.table.newWrite(USER).withIOManager(IOManager.create(temporary));
      keys = table.primaryKeys().isEmpty() ? null : table.createRowKeyExtractor();
    }

    void write(int flussBucket, String[] words) throws Exception {
      int bucket = table.bucketMode() == BucketMode.BUCKET_UNAWARE ? 0 : flussBucket;
      buckets.add(bucket);
      RowType types = table.rowType();
      for (int at = 3; at < words.length; at += 1 + types.getFieldCount()) {
        GenericRow row = new GenericRow(types.getFieldCount());
        for (int column = 0; column < types.getFieldCount(); column++) {
          row.setField(column, value(types.getTypeAt(column), words[at + 1 + column]));
        }
        if (keys == null) {
          write.getWrite().write(BinaryRow.EMPTY_ROW, bucket, row);
        } else {
          keys.setRecord(row);
          KeyValue change = new KeyValue();
          change.replace(keys.trimmedPrimaryKey(), KeyValue.UNKNOWN_SEQUENCE, RowKind.fromShortString(words[at]), row);
          write.getWrite().write(BinaryRow.EMPTY_ROW, bucket, change);
        }
      }
    }

    String commit(boolean compacts, String offsetsPath) throws Exception {
      if (compacts) {
        for (int bucket : buckets) {
          write.getWrite().compact(BinaryRow.EMPTY_ROW, bucket, true);
        }
      }
      ManifestCommittable committable = new ManifestCommittable(Long.MAX_VALUE);
      for (CommitMessage message : write.prepareCommit()) {
        committable.addFileCommittable(message);
      }
      committable.addProperty("fluss-offsets", offsetsPath);
      try (TableCommitImpl commit = table.newCommit(USER)) {
        commit.ignoreEmptyCommit(false);
        commit.commit(committable);
      }
      write.close();
      return String.valueOf(table.snapshotManager().latestSnapshotId());
    }
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
        return Integer.valueOf(text);
      case BIGINT:
        return Long.valueOf(text);
      case FLOAT:
        return Float.valueOf(text);
      case DOUBLE:
        return Double.valueOf(text);
      case VARCHAR:
        return BinaryString.fromString(text);
      case VARBINARY:
        return Base64.getDecoder().decode(text);
      case DECIMAL:
        DecimalType decimal = (DecimalType) type;
        return Decimal.fromBigDecimal(new BigDecimal(text), decimal.getPrecision(), decimal.getScale());
      case TIMESTAMP_WITHOUT_TIME_ZONE: // milliseconds, and nanoseconds beside them
      case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
        return Timestamp.fromEpochMillis(Long.parseLong(text.split(" ")[0]), Integer.parseInt(text.split(" ")[1]));
      case ARRAY: // elements between ";"
        String[] elements = text.split(";", -1);
        Object[] values = new Object[elements.length];
        for (int at = 0; at < elements.length; at++) {
          values[at] = value(((ArrayType) type).getElementType(), elements[at]);
        }
        return new GenericArray(values);
      case MAP: // key=value between ";"
        Map<Object, Object> pairs = new LinkedHashMap<>();
        for (String pair : text.split(";")) {
          MapType map = (MapType) type;
          pairs.put(value(map.getKeyType(), pair.split("=")[0]), value(map.getValueType(), pair.split("=")[1]));
        }
        return new GenericMap(pairs);
      case ROW: // fields between ";"
        String[] parts = text.split(";", -1);
        GenericRow row = new GenericRow(parts.length);
        for (int at = 0; at < parts.length; at++) {
          row.setField(at, value(((RowType) type).getTypeAt(at), parts[at]));
        }
        return row;
      default:
        throw new IllegalArgumentException("no value of " + type);
    }
  }
}
