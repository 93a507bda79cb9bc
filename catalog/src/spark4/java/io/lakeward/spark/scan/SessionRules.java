package io.lakeward.spark.scan;

import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * The rules and the strategy that a Spark session needs for scans of this plugin. Spark collects its
 * rules before it optimises, so they are installed while it analyses.
 */
public final class SessionRules {

  private SessionRules() {}

  /** Installs what system tables need in the active session, unless it is there already. */
  public static void install() {
    install(new LocalRowsRule());
  }

  /** Installs a rule beside those for system tables, unless one of its class is there already. */
  public static void install(Rule<LogicalPlan> rule) {
    Option<SparkSession> active = SparkSession.getActiveSession();
    if (active.isEmpty()) {
      return;
    }
    ExperimentalMethods methods = active.get().experimental();
    synchronized (methods) {
      Seq<Rule<LogicalPlan>> rules = methods.extraOptimizations();
      if (rules.exists(other -> other.getClass() == rule.getClass())) {
        return;
      }
      if (!methods.extraStrategies().exists(other -> other instanceof SystemScanStrategy)) {
        methods.extraStrategies_$eq(
            ScalaSequences.cast(methods.extraStrategies().appended(new SystemScanStrategy())));
      }
      methods.extraOptimizations_$eq(ScalaSequences.cast(rules.appended(rule)));
    }
  }
}
