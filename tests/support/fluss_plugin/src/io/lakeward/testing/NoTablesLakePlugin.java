package io.lakeward.testing;

import java.util.List;
import org.apache.fluss.config.Configuration;
import org.apache.fluss.lake.lakestorage.LakeCatalog;
import org.apache.fluss.lake.lakestorage.LakeStorage;
import org.apache.fluss.lake.lakestorage.LakeStoragePlugin;
import org.apache.fluss.lake.source.LakeSource;
import org.apache.fluss.lake.writer.LakeTieringFactory;
import org.apache.fluss.metadata.TableChange;
import org.apache.fluss.metadata.TableDescriptor;
import org.apache.fluss.metadata.TablePath;

/** A lake plugin for a coordinator of tests: calls itself iceberg and leaves every lake table to the tiering service. */
public final class NoTablesLakePlugin implements LakeStoragePlugin {
  @Override
  public String identifier() {
    return "iceberg";
  }

  @Override
  public LakeStorage createLakeStorage(Configuration configuration) {
    return new NoTables();
  }

  private static final class NoTables implements LakeStorage, LakeCatalog {
    @Override
    public LakeCatalog createLakeCatalog() {
      return this;
    }

    @Override
    public void createTable(TablePath path, TableDescriptor descriptor, Context context) {}

    @Override
    public void alterTable(TablePath path, List<TableChange> changes, Context context) {}

    @Override
    public LakeTieringFactory<?, ?> createLakeTieringFactory() {
      throw new UnsupportedOperationException("nothing is tiered through this plugin");
    }

    @Override
    public LakeSource<?> createLakeSource(TablePath path) {
      throw new UnsupportedOperationException("nothing is read through this plugin");
    }
  }
}
