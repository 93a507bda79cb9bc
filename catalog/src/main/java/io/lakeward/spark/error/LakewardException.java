package io.lakeward.spark.error;

import org.apache.spark.QueryContext;
import org.apache.spark.sql.AnalysisException;
import scala.Option;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;

/**
 * The class of all errors of this plugin. The message tells the user what is wrong, where, and what
 * to do.
 *
 * <p>It extends {@link AnalysisException}, because PySpark, Spark Connect and the SQL shells show
 * the message of one without a Java stack trace. For the same reason the cause is kept as a
 * suppressed exception, since PySpark would print a cause too.
 */
public final class LakewardException extends AnalysisException {

  /** Whether this is the error for an unknown name. */
  private final boolean isUnknown;

  public LakewardException(String message) {
    super(
        VisibleText.of(message),
        Option.empty(),
        Option.empty(),
        Option.empty(),
        Option.empty(),
        noParameters(),
        new QueryContext[0]);
    isUnknown = false;
  }

  public LakewardException(String message, Throwable origin) {
    this(message);
    addSuppressed(origin);
  }

  private LakewardException(String message, String condition, Map<String, String> parameters) {
    super(
        VisibleText.of(message),
        Option.empty(),
        Option.empty(),
        Option.empty(),
        Option.apply(condition),
        parameters,
        new QueryContext[0]);
    isUnknown = true;
  }

  /**
   * The error for an unknown name, with Spark's own error condition, by which Spark tells "not
   * there" from "broken".
   */
  public static LakewardException unknown(Missing missing, String name, String message) {
    Map<String, String> parameters = noParameters();
    return new LakewardException(
        "[" + missing.name() + "] " + message,
        missing.name(),
        parameters.updated(missing.parameter, VisibleText.of(name)));
  }

  private boolean isUnknown() {
    return isUnknown;
  }

  /** Error conditions of Spark, with the parameter in which each carries the name. */
  public enum Missing {
    TABLE_OR_VIEW_NOT_FOUND("relationName"),
    SCHEMA_NOT_FOUND("schemaName"),
    ROUTINE_NOT_FOUND("routineName");

    private final String parameter;

    Missing(String parameter) {
      this.parameter = parameter;
    }
  }

  /** Work that may fail with an error for the user. */
  @FunctionalInterface
  public interface Work<T> {
    T run() throws LakewardException;
  }

  /** The result of the work, for a method of Spark that does not declare its exception. */
  public static <T> T unchecked(Work<T> work) {
    try {
      return work.run();
    } catch (LakewardException error) {
      throw error.unchecked();
    }
  }

  /** Does the work. Returns whether its names are known: false instead of the error for one. */
  public static boolean unlessUnknown(Work<?> work) {
    try {
      work.run();
      return true;
    } catch (LakewardException error) {
      if (error.isUnknown()) {
        return false;
      }
      throw error.unchecked();
    }
  }

  /**
   * Throws this where Spark's interface declares nothing: AnalysisException is a checked exception
   * to Java only.
   */
  public RuntimeException unchecked() {
    return unchecked(this);
  }

  /** Throws an error where Spark's interface declares nothing. */
  public static RuntimeException unchecked(Throwable error) {
    return LakewardException.<RuntimeException>sneak(error);
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> RuntimeException sneak(Throwable error) throws E {
    throw (E) error;
  }

  @SuppressWarnings("unchecked")
  private static Map<String, String> noParameters() {
    return (Map<String, String>) (Map<?, ?>) Map$.MODULE$.empty();
  }
}
