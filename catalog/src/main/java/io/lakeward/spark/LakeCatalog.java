package io.lakeward.spark;

import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogNotFoundException;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;

/**
 * The lake's own catalog, as a Spark session has it under the name that the option {@code lake}
 * gives. Thread-safe.
 */
final class LakeCatalog {

  /** How a table is loaded: as it is now, or as it was. */
  @FunctionalInterface
  interface Look {
    /** Throws NoSuchTableException, among others, as {@link TableCatalog#loadTable} does. */
    Table at(TableCatalog catalog, Identifier ident) throws AnalysisException;
  }

  /** The newest that the lake has. */
  static final Look NOW = TableCatalog::loadTable;

  private static final String ADVICE =
      "`lakeward lake-conf --for spark` prints the properties of such a catalog.";

  private final String option;
  private final Optional<String> name;
  private final SparkSession session;

  /**
   * {@code owner}: the catalog that has the option; {@code name}: its value; {@code session}: the
   * owner's, for not every thread that asks has it as its active one.
   */
  LakeCatalog(String owner, Optional<String> name, SparkSession session) {
    this.session = session;
    this.option = "spark.sql.catalog." + owner + "." + CatalogOptions.LAKE;
    this.name = name;
  }

  /**
   * The table at {@code path}, namespace first; absent if the lake has no such table. Throws
   * LakewardException, which says what to do, if the catalog cannot be asked or the table cannot be
   * read.
   */
  Optional<SupportsRead> find(List<String> path, Look look) throws LakewardException {
    TableCatalog catalog = catalog();
    int last = path.size() - 1;
    Identifier ident = Identifier.of(path.subList(0, last).toArray(String[]::new), path.get(last));
    try {
      // Iceberg's catalogs keep tables for as long as they are in use: what another process
      // committed, as a tierer does, would stay unseen.
      catalog.invalidateTable(ident);
      return Optional.of(readable(ident, look.at(catalog, ident)));
    } catch (NoSuchTableException | NoSuchNamespaceException absent) {
      return Optional.empty();
    } catch (LakewardException ours) {
      throw ours;
    } catch (AnalysisException | RuntimeException error) {
      throw new LakewardException(
          "the lake's catalog %s cannot open %s (%s)%s"
              .formatted(name.get(), ident, words(error), look == NOW ? "" : moments(ident)),
          error);
    }
  }

  private String moments(Identifier ident) {
    return ". What can be read: SELECT * FROM %s.%s.snapshots".formatted(name.get(), ident);
  }

  private TableCatalog catalog() throws LakewardException {
    String wanted = name.orElseThrow(this::notNamed);
    CatalogPlugin found = plugin(wanted);
    if (found instanceof LakewardCatalog || !(found instanceof TableCatalog tables)) {
      throw new LakewardException(
          "the option %s names the catalog %s, which is not a lake's own. %s"
              .formatted(option, wanted, ADVICE));
    }
    return tables;
  }

  private CatalogPlugin plugin(String wanted) throws LakewardException {
    try {
      return session.sessionState().catalogManager().catalog(wanted);
    } catch (Exception error) { // of Scala's, which declares none
      String problem =
          error instanceof CatalogNotFoundException
              ? "this Spark does not have"
              : "does not start (" + words(error) + ")";
      throw new LakewardException(
          "the option %s names the catalog %s, which %s. %s"
              .formatted(option, wanted, problem, ADVICE),
          error);
    }
  }

  private LakewardException notNamed() {
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

  private static String words(Throwable error) {
    return Arrays.stream(String.valueOf(error.getMessage()).split("\\R", 2)).findFirst().get();
  }
}
