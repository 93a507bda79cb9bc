package io.lakeward.spark;

import java.util.List;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.classic.SparkSession;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** What a session of Spark has to know about scans of system tables. */
final class SessionRules {

  private SessionRules() {}

  /** Tells it to the active session, if there is one that does not know yet. */
  static void install() {
    Option<SparkSession> active = SparkSession.getActiveSession();
    if (active.isEmpty()) {
      return;
    }
    ExperimentalMethods methods = active.get().experimental();
    synchronized (methods) {
      if (methods.extraOptimizations().exists(rule -> rule instanceof RowsInPlan)) {
        return;
      }
      methods.extraStrategies_$eq(
          cast(methods.extraStrategies().appended(new SystemScanStrategy())));
      methods.extraOptimizations_$eq(cast(methods.extraOptimizations().appended(new RowsInPlan())));
    }
  }

  /** A sequence of Scala's. */
  @SafeVarargs
  static <T> Seq<T> listed(T... each) {
    return CollectionConverters.asScala(List.of(each)).toSeq();
  }

  /** Scala's sequences are covariant, which Java cannot say. */
  @SuppressWarnings("unchecked")
  static <T> Seq<T> cast(Object sequence) {
    return (Seq<T>) sequence;
  }
}
