package io.lakeward.testing;

import java.nio.file.Files;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.append.AppendCompactTask;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.operation.BaseAppendFileStoreWrite;
import org.apache.paimon.options.Options;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.source.DataSplit;

/** A full compaction of one table by Paimon itself, as its Flink and Spark procedures make it. Arguments: warehouse, table. */
public final class PaimonCompaction {
  private PaimonCompaction() {}

  public static void main(String[] arguments) throws Exception {
    Options options = new Options();
    options.set("warehouse", arguments[0]);
    try (Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(options))) {
      FileStoreTable table = (FileStoreTable) catalog.getTable(Identifier.fromString(arguments[1]));
      BatchWriteBuilder builder = table.newBatchWriteBuilder();
      try (BatchTableCommit commit = builder.newCommit()) {
        commit.commit(table.bucketMode() == BucketMode.BUCKET_UNAWARE ? appended(table) : bucketed(table, builder));
      }
    }
  }

  private static List<CommitMessage> bucketed(FileStoreTable table, BatchWriteBuilder builder) throws Exception {
    String temporary = Files.createTempDirectory("paimon-compaction").toString();
    try (IOManager files = IOManager.create(temporary);
        BatchTableWrite write = builder.newWrite()) {
      write.withIOManager(files);
      for (DataSplit split : table.newSnapshotReader().read().dataSplits()) {
        write.compact(split.partition(), split.bucket(), true);
      }
      return write.prepareCommit();
    }
  }

  private static List<CommitMessage> appended(FileStoreTable table) throws Exception {
    Map<BinaryRow, List<DataFileMeta>> partitions = new LinkedHashMap<>();
    for (DataSplit split : table.newSnapshotReader().read().dataSplits()) {
      partitions.computeIfAbsent(split.partition(), partition -> new ArrayList<>()).addAll(split.dataFiles());
    }
    BaseAppendFileStoreWrite write = (BaseAppendFileStoreWrite) table.store().newWrite("compaction");
    List<CommitMessage> messages = new ArrayList<>();
    for (Map.Entry<BinaryRow, List<DataFileMeta>> partition : partitions.entrySet()) {
      messages.add(new AppendCompactTask(partition.getKey(), partition.getValue()).doCompact(table, write));
    }
    write.close();
    return messages;
  }
}
