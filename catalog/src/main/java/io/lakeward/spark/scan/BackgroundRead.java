package io.lakeward.spark.scan;

import io.lakeward.spark.error.LakewardException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.spark.sql.SparkSession;

/** A read in a thread of its own. The caller waits for it when it needs the result. */
public final class BackgroundRead<T> {

  private static final ExecutorService THREADS =
      Executors.newCachedThreadPool(BackgroundRead::thread);

  private final Future<T> result;

  private BackgroundRead(Future<T> result) {
    this.result = result;
  }

  /** Begins the read and returns at once. */
  public static <T> BackgroundRead<T> begin(LakewardException.Work<T> read) {
    return new BackgroundRead<>(THREADS.submit(read::run));
  }

  /**
   * Waits for the result and returns it, or throws what the read threw. An interrupt of the waiting
   * thread ends the read.
   */
  public T await() throws LakewardException {
    try {
      return result.get();
    } catch (InterruptedException interrupted) {
      result.cancel(true);
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

  /** A thread for reads of many sessions, so it keeps nothing of the session that began it. */
  private static Thread thread(Runnable work) {
    Thread thread =
        new Thread(
            () -> {
              SparkSession.clearActiveSession();
              work.run();
            },
            "lakeward-read");
    thread.setContextClassLoader(BackgroundRead.class.getClassLoader());
    thread.setDaemon(true);
    return thread;
  }
}
