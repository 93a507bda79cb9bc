package io.lakeward.spark;

import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.spark.sql.SparkSession;

/** Work that goes on in a thread of its own until somebody wants what it makes. */
final class Ahead<T> {

  /** What is made. */
  @FunctionalInterface
  interface Work<T> {
    T make() throws LakewardException;
  }

  private static final ExecutorService THREADS = Executors.newCachedThreadPool(Ahead::thread);

  private final Future<T> made;

  private Ahead(Future<T> made) {
    this.made = made;
  }

  /** Begins the work; returns at once. */
  static <T> Ahead<T> begin(Work<T> work) {
    return new Ahead<>(THREADS.submit(work::make));
  }

  /**
   * What was made, as soon as it is; throws what the work threw. An interrupt of the waiting thread
   * ends the work.
   */
  T await() throws LakewardException {
    try {
      return made.get();
    } catch (InterruptedException interrupted) {
      made.cancel(true);
      Thread.currentThread().interrupt();
      throw new LakewardException("the statement was cancelled", interrupted);
    } catch (ExecutionException failed) {
      if (failed.getCause() instanceof LakewardException error) {
        throw error;
      }
      if (failed.getCause() instanceof RuntimeException error) {
        throw error;
      }
      throw new IllegalStateException(failed.getCause());
    }
  }

  /** It serves many sessions, so it keeps nothing of the one that it was made for. */
  private static Thread thread(Runnable work) {
    Thread thread =
        new Thread(
            () -> {
              SparkSession.clearActiveSession();
              work.run();
            },
            "lakeward-ahead");
    thread.setContextClassLoader(Ahead.class.getClassLoader());
    thread.setDaemon(true);
    return thread;
  }
}
