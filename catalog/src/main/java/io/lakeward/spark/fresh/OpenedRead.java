package io.lakeward.spark.fresh;

import com.google.protobuf.ByteString;
import io.lakeward.rpc.v1.OpenReadResponse;
import io.lakeward.rpc.v1.PbBucketRange;
import io.lakeward.rpc.v1.PlanReadRequest;
import io.lakeward.rpc.v1.ReadScan;
import io.lakeward.spark.error.LakewardException;
import io.lakeward.spark.service.ScanPlan;
import io.lakeward.spark.service.ServiceClient;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A read of one table whose moment is fixed: the lake snapshot and the ends of the log. Thread-safe.
 */
final class OpenedRead {

  /** How many buckets a plan shows. */
  private static final int SHOWN_BUCKETS = 5;

  private static final String ICEBERG = "iceberg";

  private final String table;
  private final OpenReadResponse opened;
  private final Ticket ticket;
  private volatile boolean used;

  /** {@code user} opened the read of {@code table} at {@code service}. */
  OpenedRead(ServiceClient service, String user, String table, OpenReadResponse opened) {
    this.table = table;
    this.opened = opened.toBuilder().clearTicket().build();
    this.ticket = new Ticket(service, user, opened.getTicket());
  }

  /** The right to plan, extend and end one read. No text shows it. */
  static final class Ticket {
    private static final Logger LOG = LoggerFactory.getLogger(OpenedRead.class);

    private final ServiceClient service;
    private final String user;
    private final long openedNanos = System.nanoTime();
    private volatile ByteString bytes;

    private Ticket(ServiceClient service, String user, ByteString bytes) {
      this.service = service;
      this.user = user;
      this.bytes = bytes;
    }

    /** Extends the read. A failure is logged: the tasks that need what was removed report it. */
    synchronized void renew() {
      try {
        bytes = service.renewRead(user, bytes).getTicket();
      } catch (LakewardException failed) {
        LOG.warn("A read could not be extended: {}", failed.getMessage());
      }
    }

    /** Sets the ticket that a scan returned. A renewal that began before the scan does not undo it. */
    private synchronized void replace(ByteString bytes) {
      this.bytes = bytes;
    }

    /** Time since the read was opened. */
    Duration age() {
      return Duration.ofNanos(System.nanoTime() - openedNanos);
    }

    /** Ends the read. After a failure the service ends it when it expires. */
    void close() {
      try {
        service.closeRead(user, bytes);
      } catch (LakewardException failed) {
        LOG.info("A read ends when it expires: {}", failed.getMessage());
      }
    }
  }

  Ticket ticket() {
    return ticket;
  }

  /**
   * Whether a statement has executed a scan of this read. CACHE LAZY TABLE and REFRESH TABLE only
   * plan it, and a later statement executes it.
   */
  boolean isUsed() {
    return used;
  }

  /** Records that the rows of this read need no further task. */
  void setUsed() {
    used = true;
  }

  /** The tasks that return the rows of {@code scan}. */
  List<ByteString> tasks(ReadScan scan) throws LakewardException {
    List<ByteString> tasks = plan(scan, false).tasks();
    used = true;
    return tasks;
  }

  /** The number of rows of {@code scan}; empty if only reading them tells it. */
  OptionalLong rowCount(ReadScan scan) throws LakewardException {
    OptionalLong count = plan(scan, true).rowCount();
    used |= count.isPresent();
    return count;
  }

  private ScanPlan plan(ReadScan scan, boolean count) throws LakewardException {
    if (scan.getPart() != ReadScan.Part.CHANGELOG) {
      return planned(scan, count);
    }
    // The ticket of the first scan tells the others where the changelog begins.
    synchronized (this) {
      ScanPlan plan = planned(scan, count);
      plan.ticket().ifPresent(ticket::replace);
      return plan;
    }
  }

  private ScanPlan planned(ReadScan scan, boolean count) throws LakewardException {
    return ticket.service.planRead(
        ticket.user,
        PlanReadRequest.newBuilder()
            .setTicket(ticket.bytes)
            .setScan(scan)
            .setCount(count)
            .build());
  }

  /** The table, as {@code database.table}. */
  String table() {
    return table;
  }

  /** The Python of executors; empty = Spark's. */
  Optional<String> python() {
    return ticket.service.python();
  }

  boolean hasPrimaryKey() {
    return opened.getHasPrimaryKey();
  }

  /** The Iceberg snapshot of the lake copy; empty without a copy, and for another format. */
  OptionalLong icebergSnapshot() {
    return opened.hasLakeSnapshotId()
            && opened.getLakeFormat().equals(ICEBERG)
            && !opened.getLakeHasOtherColumns()
        ? OptionalLong.of(opened.getLakeSnapshotId())
        : OptionalLong.empty();
  }

  boolean hasLakeCopy() {
    return opened.hasLakeSnapshotId();
  }

  /** The id of the lake snapshot, or 0 without a lake copy. */
  long lakeSnapshotId() {
    return opened.getLakeSnapshotId();
  }

  int logBuckets() {
    return opened.getLogRangesCount();
  }

  /** Upper bound of the number of log records. */
  long logRecords() {
    return opened.getLogRecords();
  }

  /** Whether the rows of some buckets begin with a KV snapshot, whose number of rows is unknown. */
  boolean hasKvSnapshots() {
    return opened.getKvSnapshots() > 0;
  }

  /** Snapshots, offsets and number of records, for plans. */
  @Override
  public String toString() {
    String lake =
        opened.hasLakeSnapshotId()
            ? "lake snapshot " + opened.getLakeSnapshotId()
            : "no lake snapshot";
    String kv = hasKvSnapshots() ? ", KV snapshots of %d buckets".formatted(opened.getKvSnapshots()) : "";
    return "%s%s, log records %d in %d buckets%s"
        .formatted(lake, kv, logRecords(), logBuckets(), logBuckets() == 0 ? "" : " " + ranges());
  }

  private String ranges() {
    List<PbBucketRange> ranges = opened.getLogRangesList();
    String shown =
        ranges.stream()
            .limit(SHOWN_BUCKETS)
            .map(OpenedRead::range)
            .collect(Collectors.joining(", "));
    int more = ranges.size() - SHOWN_BUCKETS;
    return more > 0 ? "[%s, and %d more]".formatted(shown, more) : "[" + shown + "]";
  }

  private static String range(PbBucketRange range) {
    String partition =
        range.getBucket().hasPartitionId() ? range.getBucket().getPartitionId() + "/" : "";
    return "%s%d: %d..%d"
        .formatted(
            partition,
            range.getBucket().getBucketId(),
            range.getStartingOffset(),
            range.getStoppingOffset());
  }
}
