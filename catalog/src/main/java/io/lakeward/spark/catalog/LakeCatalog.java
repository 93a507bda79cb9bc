package io.lakeward.spark.catalog;

import io.lakeward.spark.error.LakewardException;
import io.lakeward.spark.service.CatalogOptions;
import io.lakeward.spark.version.ActiveSession;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.CatalogNotFoundException;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;

/**
 * The lake's own catalog, which a Spark session has under the name in the option {@code lake}.
 * Thread-safe.
 */
final class LakeCatalog {

  /** Loads one version of a table: the newest, or an earlier one. */
  @FunctionalInterface
  interface Version {
    /** Throws NoSuchTableException, among others, as {@link TableCatalog#loadTable} does. */
    Table load(TableCatalog catalog, Identifier ident) throws AnalysisException;
  }

  /** The newest version that the lake has. */
  static final Version NEWEST = TableCatalog::loadTable;

  private static final String ADVICE =
      "`lakeward lake-conf --for spark` prints the properties of such a catalog.";

  private final String option;
  private final Optional<String> name;
  private final ActiveSession session;

  /**
   * {@code owner}: the catalog that has the option; {@code name}: its value; {@code session}: the
   * owner's, which is not the active session of every thread that reads a table.
   */
  LakeCatalog(String owner, Optional<String> name, ActiveSession session) {
    this.session = session;
    this.option = "spark.sql.catalog." + owner + "." + CatalogOptions.LAKE;
    this.name = name;
  }

  /**
   * The table at {@code path}, namespace first; absent if the lake has no such table. Throws
   * LakewardException, with a hint, if the catalog cannot be used or the table cannot be read.
   * {@code history} describes the versions that are kept, for the error about an unknown version;
   * may be empty.
   */
  Optional<SupportsRead> find(List<String> path, Version version, String history)
      throws LakewardException {
    TableCatalog catalog = catalog();
    int last = path.size() - 1;
    Identifier ident = Identifier.of(path.subList(0, last).toArray(String[]::new), path.get(last));
    try {
      // Iceberg's catalogs cache a table while it is in use, and then miss the commits of other
      // processes, such as a tierer's.
      catalog.invalidateTable(ident);
      return Optional.of(readable(ident, version.load(catalog, ident)));
    } catch (NoSuchTableException | NoSuchNamespaceException absent) {
      return Optional.empty();
    } catch (LakewardException ours) {
      throw ours;
    } catch (AnalysisException | RuntimeException error) {
      throw new LakewardException(
          "the lake's catalog %s cannot open %s (%s)%s"
              .formatted(
                  name.get(),
                  ident,
                  firstLine(error),
                  version == NEWEST ? "" : snapshotsHint(ident, history)),
          error);
    }
  }

  /** The full name of the table at {@code path}, unopened; empty if no catalog is configured. */
  String tableName(List<String> path) {
    return name.isEmpty() || path.isEmpty() ? "" : name.get() + "." + String.join(".", path);
  }

  private String snapshotsHint(Identifier ident, String history) {
    String kept = history.isEmpty() ? "" : ". " + history;
    return "%s. What can be read: SELECT * FROM %s.%s.snapshots"
        .formatted(kept, name.get(), ident);
  }

  private TableCatalog catalog() throws LakewardException {
    String configured = name.orElseThrow(this::notConfigured);
    CatalogPlugin plugin = plugin(configured);
    if (plugin instanceof ServiceCatalog || !(plugin instanceof TableCatalog tables)) {
      throw new LakewardException(
          "the option %s names the catalog %s, which is not a lake's own. %s"
              .formatted(option, configured, ADVICE));
    }
    return tables;
  }

  private CatalogPlugin plugin(String configured) throws LakewardException {
    try {
      return session.catalog(configured);
    } catch (LinkageError other) {
      throw new LakewardException(
          ("the option %s names the catalog %s, whose jars are made for another version of Spark"
                  + " than %s (%s). If Iceberg has a runtime for this Spark, take that one. Otherwise"
                  + " remove the option: executors then read the tables with the Python package"
                  + " lakeward, but not by names with $lake")
              .formatted(option, configured, session.version(), firstLine(other)),
          other);
    } catch (Exception error) {
      String problem =
          error instanceof CatalogNotFoundException
              ? "this Spark does not have"
              : "does not start (" + firstLine(error) + ")";
      throw new LakewardException(
          "the option %s names the catalog %s, which %s. %s"
              .formatted(option, configured, problem, ADVICE),
          error);
    }
  }

  private LakewardException notConfigured() {
    return new LakewardException(
        ("its rows are in the lake, and the option %s does not say which catalog of this Spark has"
                + " them. Set it to that catalog's name, such as lake; %s")
            .formatted(option, ADVICE));
  }

  private SupportsRead readable(Identifier ident, Table table) throws LakewardException {
    if (table instanceof SupportsRead readable) {
      return readable;
    }
    throw new LakewardException(
        ("the catalog %s, which the option %s names, has %s as a table that cannot be read through"
                + " it (%s)")
            .formatted(name.get(), option, ident, table.getClass().getSimpleName()));
  }

  private static String firstLine(Throwable error) {
    return Arrays.stream(String.valueOf(error.getMessage()).split("\\R", 2)).findFirst().get();
  }
}
