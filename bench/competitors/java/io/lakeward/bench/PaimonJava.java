package io.lakeward.bench;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.types.RowKind;

/**
 * Paimon's own write of changes to a primary-key table, in a JVM that stays: commands come as lines of standard input, their words between
 * tabs, and each is answered by one line. Rows are in memory before the clock runs, and buckets are written by as many threads as asked for.
 */
public final class PaimonJava {
  private PaimonJava() {}

  /** Arguments: folder for spilled rows, threads. */
  public static void main(String[] arguments) throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(Integer.parseInt(arguments[1]));
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] words = line.split("\t");
      FileStoreTable table = FileStoreTableFactory.create(LocalFileIO.create(), new org.apache.paimon.fs.Path(words[1]));
      if (words[0].equals("write")) { // table; then a file of changes for each bucket: answers seconds
        System.out.println("> " + write(table.copy(Map.of("write-only", "true")), words, arguments[0], threads));
      } else { // table: answers how many rows Paimon's reader finds
        System.out.println("> " + count(table));
      }
      System.out.flush();
    }
    threads.shutdown();
  }

  private static double write(FileStoreTable table, String[] words, String spill, ExecutorService threads) throws Exception {
    List<GenericRow[]> buckets = new ArrayList<>();
    for (int index = 2; index < words.length; index++) {
      buckets.add(rows(Path.of(words[index]), index - 2, table.rowType().containsField("__offset")));
    }
    long start = System.nanoTime();
    BatchWriteBuilder builder = table.newBatchWriteBuilder();
    List<Future<List<CommitMessage>>> written = new ArrayList<>();
    for (int index = 0; index < buckets.size(); index++) {
      int bucket = index;
      written.add(threads.submit(() -> writeBucket(builder, buckets.get(bucket), bucket, spill)));
    }
    List<CommitMessage> messages = new ArrayList<>();
    for (Future<List<CommitMessage>> one : written) {
      messages.addAll(one.get());
    }
    builder.newCommit().commit(messages);
    return (System.nanoTime() - start) / 1e9;
  }

  private static List<CommitMessage> writeBucket(BatchWriteBuilder builder, GenericRow[] rows, int bucket, String spill) throws Exception {
    try (BatchTableWrite write = builder.newWrite()) {
      write.withIOManager(IOManager.create(spill));
      for (GenericRow row : rows) {
        write.write(row, bucket);
      }
      return write.prepareCommit();
    }
  }

  private static long count(FileStoreTable table) throws Exception {
    ReadBuilder builder = table.newReadBuilder();
    long[] count = {0};
    builder.newRead().createReader(builder.newScan().plan()).forEachRemaining(row -> count[0]++);
    return count[0];
  }

  /** A file of columns: number of rows, kinds, ids, visits, amounts, times, ends of names, names, offsets. */
  private static GenericRow[] rows(Path file, int bucket, boolean hasSystemColumns) throws Exception {
    ByteBuffer data = ByteBuffer.wrap(Files.readAllBytes(file)).order(ByteOrder.LITTLE_ENDIAN);
    int count = (int) data.getLong(0);
    int kinds = 8;
    int ids = kinds + 8 * count;
    int visits = ids + 8 * count;
    int amounts = visits + 8 * count;
    int times = amounts + 8 * count;
    int offsets = times + 8 * count;
    int ends = offsets + 8 * count;
    int names = ends + 8 * count;
    GenericRow[] rows = new GenericRow[count];
    int begin = 0;
    for (int index = 0; index < count; index++) {
      int at = 8 * index;
      int end = (int) data.getLong(ends + at);
      byte[] name = new byte[end - begin];
      System.arraycopy(data.array(), names + begin, name, 0, name.length);
      begin = end;
      RowKind kind = RowKind.fromByteValue((byte) data.getLong(kinds + at));
      long id = data.getLong(ids + at);
      int visit = (int) data.getLong(visits + at);
      double amount = data.getDouble(amounts + at);
      Timestamp time = Timestamp.fromMicros(data.getLong(times + at));
      BinaryString text = BinaryString.fromBytes(name);
      if (hasSystemColumns) {
        long offset = data.getLong(offsets + at);
        rows[index] = GenericRow.ofKind(kind, id, visit, amount, time, text, bucket, offset, Timestamp.fromEpochMillis(0));
      } else {
        rows[index] = GenericRow.ofKind(kind, id, visit, amount, time, text);
      }
    }
    return rows;
  }
}
