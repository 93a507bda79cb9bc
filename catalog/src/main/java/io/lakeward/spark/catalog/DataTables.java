package io.lakeward.spark.catalog;

import io.lakeward.spark.error.LakewardException;
import io.lakeward.spark.service.ArrowRows;
import io.lakeward.spark.service.CatalogOptions;
import io.lakeward.spark.service.CatalogOptions.PlainName;
import io.lakeward.spark.service.ServiceClient;
import io.lakeward.sys.rpc.v1.DescribeTableResponse;
import java.lang.ref.SoftReference;
import java.util.Collection;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.types.StructType;

/**
 * The data tables of a catalog: the service describes them, the lake's own catalog has the rows.
 * For a listing the service describes all tables at once, and no lake table is opened. Thread-safe.
 */
final class DataTables {

  private final String catalog;
  private final ServiceClient service;
  private final LakeCatalog lake;
  private final CatalogOptions options;

  /** The listing of each thread. Spark lists the names and loads the tables in one thread. */
  private final ThreadLocal<SoftReference<Listing>> listings = new ThreadLocal<>();

  private record Listing(
      String user, String namespace, Map<String, DescribeTableResponse> tables) {}

  /** {@code catalog}: its name; {@code options}: its options. */
  DataTables(String catalog, ServiceClient service, LakeCatalog lake, CatalogOptions options) {
    this.options = options;
    this.catalog = catalog;
    this.service = service;
    this.lake = lake;
  }

  /** The names of all tables of a namespace, which is written as it is spelled. */
  Collection<String> names(String user, String namespace) throws LakewardException {
    if (!ListingCallers.areOnTheStack()) {
      return service.listTables(user, namespace);
    }
    Map<String, DescribeTableResponse> tables = service.describeTables(user, namespace);
    listings.set(new SoftReference<>(new Listing(user, namespace, tables)));
    return tables.keySet();
  }

  /**
   * The table, only described if a listing loads it. For any other statement it has the newest
   * version of its lake copy. An unknown table is the error TABLE_OR_VIEW_NOT_FOUND. {@code
   * namespace} is written as it is spelled.
   */
  Table load(String user, String namespace, String name) throws LakewardException {
    Optional<DescribeTableResponse> described = listed(user, namespace, name);
    if (described.isEmpty()) {
      return options.plainName() == PlainName.FRESH
          ? fresh(namespace, service.describeTable(user, namespace, name))
          : open(user, namespace, name, LakeCatalog.NEWEST);
    }
    String fullName = fullName(namespace, described.get());
    return DataTable.listed(
        fullName,
        described.get(),
        source(fullName, described.get()),
        lake.tableName(described.get().getLakePathList()));
  }

  private Optional<DescribeTableResponse> listed(String user, String namespace, String name) {
    SoftReference<Listing> kept = listings.get();
    Listing listing = kept == null ? null : kept.get();
    if (listing == null || !ListingCallers.areOnTheStack()) {
      listings.remove();
      return Optional.empty();
    }
    return listing.user().equals(user) && listing.namespace().equals(namespace)
        ? Optional.ofNullable(listing.tables().get(name))
        : Optional.empty();
  }

  private FreshTable fresh(String namespace, DescribeTableResponse described)
      throws LakewardException {
    String fullName = fullName(namespace, described);
    return new FreshTable(
        fullName,
        described,
        source(fullName, described),
        namespace + "." + described.getName(),
        options.target());
  }

  /** The table with that version of its lake copy; throws LakewardException if it is unreadable. */
  Table past(String user, String namespace, String name, LakeCatalog.Version version)
      throws LakewardException {
    return open(user, namespace, name, version).checkReadable();
  }

  /** The table with that version of its lake copy; only described if the copy is unreadable. */
  private DataTable open(String user, String namespace, String name, LakeCatalog.Version version)
      throws LakewardException {
    DescribeTableResponse described = service.describeTable(user, namespace, name);
    String fullName = fullName(namespace, described);
    StructType source = source(fullName, described);
    String reason = described.getNotInLake();
    try {
      Optional<LakeCopy> copy = copy(described, version);
      if (copy.isPresent()) {
        return DataTable.readable(fullName, described, source, copy.get());
      }
    } catch (LakewardException unreadable) {
      reason = unreadable.getMessage();
    }
    return DataTable.unreadable(fullName, described, source, reason);
  }

  private Optional<LakeCopy> copy(DescribeTableResponse described, LakeCatalog.Version version)
      throws LakewardException {
    return described.getLakePathCount() == 0
        ? Optional.empty()
        : lake.find(described.getLakePathList(), version, described.getLakeHistory())
            .map(LakeCopy::new);
  }

  private String fullName(String namespace, DescribeTableResponse described) {
    return String.join(".", catalog, namespace, described.getName());
  }

  private static StructType source(String fullName, DescribeTableResponse described)
      throws LakewardException {
    return ArrowRows.schema(fullName, described.getSchema().toByteArray());
  }
}
