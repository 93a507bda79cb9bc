package io.lakeward.spark.fresh;

import io.lakeward.spark.error.LakewardException;
import io.lakeward.spark.error.LakewardException.Work;
import java.lang.ref.Cleaner;
import java.lang.ref.WeakReference;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import scala.Option;

/**
 * The reads that the statements of a Spark have open. Scans of one table in one statement share a
 * read. A read is extended until the statement ends that executes it, and is closed then. A read
 * that no statement executes, such as of EXPLAIN or {@code df.rdd}, is closed when its plan and its
 * tasks are garbage, and is no longer extended after a day. So is the read of an iterator, because
 * its jobs run after the end of its statement. Thread-safe.
 */
final class OpenReads extends SparkListener {

  /** A service holds what a read needs for some minutes. */
  private static final int RENEWAL_SECONDS = 60;

  /**
   * A read that no statement executes must not keep the log of its table for days. A service lets no
   * read be opened for longer.
   */
  private static final Duration IDLE_LIMIT = Duration.ofHours(24);

  /** Spark's name of the action {@code Dataset.toLocalIterator}, with which JDBC reads in pieces. */
  private static final String ITERATOR = "toLocalIterator";

  private static final Cleaner CLEANER = Cleaner.create();

  private static OpenReads installed;
  private static SparkContext owner;

  private final SparkContext context;
  private final Set<OpenedRead.Ticket> open = ConcurrentHashMap.newKeySet();
  private final Map<String, Map<Object, OpenedRead>> byExecution = new HashMap<>();

  /** The reads of plans that no statement executes yet. They do not keep a read open. */
  private final Map<QueryPlanningTracker, Map<Object, WeakReference<OpenedRead>>> byPlan =
      new WeakHashMap<>();

  private final ScheduledExecutorService keeper =
      Executors.newSingleThreadScheduledExecutor(
          work -> {
            Thread thread = new Thread(work, "lakeward-open-reads");
            thread.setDaemon(true);
            return thread;
          });

  private OpenReads(SparkContext context) {
    this.context = context;
    keeper.scheduleAtFixedRate(this::renew, RENEWAL_SECONDS, RENEWAL_SECONDS, TimeUnit.SECONDS);
  }

  /** The reads of the active Spark. */
  static synchronized OpenReads installed() {
    SparkContext context = SparkContext.getOrCreate();
    if (installed == null || owner != context) {
      if (installed != null) {
        installed.keeper.shutdownNow();
      }
      installed = new OpenReads(context);
      owner = context;
      context.addSparkListener(installed);
    }
    return installed;
  }

  /** The statement that this thread executes; empty outside of one, such as for {@code df.rdd}. */
  Optional<String> execution() {
    return Optional.ofNullable(context.getLocalProperty(SQLExecution.EXECUTION_ID_KEY()));
  }

  /**
   * What scans share a read in: the statement that this thread executes, or else the plan that it
   * makes, such as for {@code df.rdd} and for JDBC, which plans a statement before it executes it.
   */
  Optional<Object> statement() {
    Optional<Object> execution = execution().map(id -> id);
    Option<QueryPlanningTracker> plan = QueryPlanningTracker.get();
    return execution.isPresent() || plan.isEmpty() ? execution : Optional.of(plan.get());
  }

  /** Whether no statement has closed the read. */
  boolean isOpen(OpenedRead read) {
    return open.contains(read.ticket());
  }

  /**
   * The read that a {@link #statement} has open for {@code key}, which identifies the table, its
   * service and the user; else a new one.
   */
  OpenedRead get(Optional<Object> statement, Object key, Work<OpenedRead> opening)
      throws LakewardException {
    if (statement.isEmpty()) {
      return opened(opening);
    }
    if (statement.get() instanceof QueryPlanningTracker plan) {
      return planned(plan, key, opening);
    }
    Map<Object, OpenedRead> reads;
    synchronized (byExecution) {
      reads = byExecution.computeIfAbsent((String) statement.get(), id -> new HashMap<>());
    }
    synchronized (reads) {
      OpenedRead read = reads.get(key);
      if (read == null) {
        read = opened(opening);
        reads.put(key, read);
      }
      return read;
    }
  }

  private OpenedRead planned(QueryPlanningTracker plan, Object key, Work<OpenedRead> opening)
      throws LakewardException {
    Map<Object, WeakReference<OpenedRead>> reads;
    synchronized (byPlan) {
      reads = byPlan.computeIfAbsent(plan, tracker -> new HashMap<>());
    }
    synchronized (reads) {
      WeakReference<OpenedRead> former = reads.get(key);
      OpenedRead read = former == null ? null : former.get();
      if (read == null || !isOpen(read)) {
        read = opened(opening);
        reads.put(key, new WeakReference<>(read));
      }
      return read;
    }
  }

  /** Keeps a read, which was opened before, open until the statement of this thread ends. */
  void keep(OpenedRead read) {
    execution()
        .ifPresent(
            execution -> {
              synchronized (byExecution) {
                byExecution.computeIfAbsent(execution, id -> new HashMap<>()).put(read, read);
              }
            });
  }

  private OpenedRead opened(Work<OpenedRead> opening) throws LakewardException {
    OpenedRead read = opening.run();
    OpenedRead.Ticket ticket = read.ticket();
    open.add(ticket);
    CLEANER.register(read, () -> close(ticket));
    return read;
  }

  @Override
  public void onOtherEvent(SparkListenerEvent event) {
    if (event instanceof SparkListenerSQLExecutionEnd end) {
      end(String.valueOf(end.executionId()), hasNoMoreJobs(end));
    }
  }

  /** Whether all jobs have ended. Spark gives the iterator of Python, and few others, no name. */
  private static boolean hasNoMoreJobs(SparkListenerSQLExecutionEnd end) {
    return end.executionName().exists(name -> !name.equals(ITERATOR));
  }

  /** Forgets a statement. If {@code closing}, the reads end that no other statement executes. */
  private void end(String execution, boolean closing) {
    Map<Object, OpenedRead> ended;
    Set<OpenedRead> others = ConcurrentHashMap.newKeySet();
    synchronized (byExecution) {
      ended = byExecution.remove(execution);
      byExecution.values().forEach(reads -> others.addAll(reads.values()));
    }
    if (ended != null && closing) {
      ended.values().stream()
          .filter(read -> read.isUsed() && !others.contains(read))
          .forEach(read -> close(read.ticket()));
    }
  }

  private void close(OpenedRead.Ticket ticket) {
    if (open.remove(ticket) && !keeper.isShutdown()) {
      keeper.execute(ticket::close);
    }
  }

  private void renew() {
    Set<String> executions;
    Set<OpenedRead.Ticket> running = new HashSet<>();
    synchronized (byExecution) {
      executions = Set.copyOf(byExecution.keySet());
      byExecution.values().forEach(reads -> reads.values().forEach(read -> running.add(read.ticket())));
    }
    // A statement that was cancelled may open its read after its end was reported. Its read is not
    // closed here, because the end of an iterator may not be reported yet.
    for (String execution : executions) {
      if (SQLExecution.getQueryExecution(Long.parseLong(execution)) == null) {
        end(execution, false);
      }
    }
    open.removeIf(ticket -> ticket.age().compareTo(IDLE_LIMIT) > 0 && !running.contains(ticket));
    open.forEach(OpenedRead.Ticket::renew);
  }
}
