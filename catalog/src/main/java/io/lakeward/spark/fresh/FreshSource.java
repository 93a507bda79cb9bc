package io.lakeward.spark.fresh;

import io.lakeward.rpc.v1.OpenReadRequest;
import io.lakeward.rpc.v1.PbTablePath;
import io.lakeward.rpc.v1.ReadScan.Part;
import io.lakeward.spark.error.LakewardException;
import io.lakeward.spark.service.ServiceClient;
import io.lakeward.spark.service.TablePaths;
import java.util.List;
import java.util.Optional;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The rows of one table object, as of the moment of its first scan. All scans read that moment.
 * Thread-safe.
 */
public final class FreshSource {

  private static final String ENGINE = "spark";

  /** Opens one snapshot of the lake copy in the lake's own catalog. */
  @FunctionalInterface
  public interface LakeSnapshot {
    /** Empty if this Spark has no catalog for the lake; then Python reads the lake's files. */
    Optional<SupportsRead> open(long snapshotId) throws LakewardException;
  }

  private final ServiceClient service;
  private final String user;
  private final PbTablePath path;
  private final Part part;
  private final LakeSnapshot lake;
  private OpenedRead read;
  private Optional<Object> statement = Optional.empty();

  /**
   * @param user for whom the table was loaded
   * @param part the rows of each scan
   */
  public FreshSource(
      ServiceClient service,
      String user,
      String database,
      String table,
      Part part,
      LakeSnapshot lake) {
    this.service = service;
    this.user = user;
    this.path = TablePaths.of(database, table);
    this.part = part;
    this.lake = lake;
  }

  String user() {
    return user;
  }

  Part part() {
    return part;
  }

  String table() {
    return TablePaths.text(path);
  }

  /** The batches of a stream of the rows, for a query with these options. */
  StreamBatches stream(CaseInsensitiveStringMap options) {
    return new StreamBatches(service, user, path, part, options);
  }

  /**
   * The read of this table. The first call of a statement opens it, because Spark makes several
   * plans with one object: REFRESH TABLE with that of CACHE TABLE, and a DataFrame with that of the
   * DataFrame from which it was derived.
   */
  synchronized OpenedRead read() throws LakewardException {
    OpenReads reads = OpenReads.installed();
    Optional<Object> current = reads.statement();
    boolean isOther = current.isPresent() && statement.isPresent() && !statement.equals(current);
    if (read == null || !reads.isOpen(read) || isOther) {
      read = reads.get(current, List.of(service, user, path), this::open);
    } else {
      reads.keep(read);
    }
    if (current.isPresent()) {
      statement = current;
    }
    return read;
  }

  private OpenedRead open() throws LakewardException {
    OpenReadRequest request =
        OpenReadRequest.newBuilder()
            .setTablePath(path)
            .setEngine(ENGINE)
            .setApplicationId(SparkContext.getOrCreate().applicationId())
            .build();
    return new OpenedRead(service, user, table(), service.openRead(user, request));
  }

  /** The lake copy at the moment of the read, if Spark can read it by itself. */
  Optional<SupportsRead> lakeCopy() throws LakewardException {
    OpenedRead moment = read();
    return moment.icebergSnapshot().isPresent()
        ? lake.open(moment.icebergSnapshot().getAsLong())
        : Optional.empty();
  }
}
