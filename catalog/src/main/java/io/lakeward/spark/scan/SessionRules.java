package io.lakeward.spark.scan;

import java.util.List;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.classic.SparkSession;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** The rule and the strategy that a Spark session needs for scans of system tables. */
public final class SessionRules {

  private SessionRules() {}

  /** Installs both in the active session, unless they are there already. */
  public static void install() {
    Option<SparkSession> active = SparkSession.getActiveSession();
    if (active.isEmpty()) {
      return;
    }
    ExperimentalMethods methods = active.get().experimental();
    synchronized (methods) {
      if (methods.extraOptimizations().exists(rule -> rule instanceof LocalRowsRule)) {
        return;
      }
      methods.extraStrategies_$eq(
          cast(methods.extraStrategies().appended(new SystemScanStrategy())));
      methods.extraOptimizations_$eq(
          cast(methods.extraOptimizations().appended(new LocalRowsRule())));
    }
  }

  /** A Scala sequence of the items. */
  @SafeVarargs
  static <T> Seq<T> sequenceOf(T... items) {
    return CollectionConverters.asScala(List.of(items)).toSeq();
  }

  /** A cast, since Scala's sequences are covariant, which Java cannot express. */
  @SuppressWarnings("unchecked")
  static <T> Seq<T> cast(Object sequence) {
    return (Seq<T>) sequence;
  }
}
