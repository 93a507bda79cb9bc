package io.lakeward.spark.version;

import java.lang.reflect.Constructor;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.CurrentUserContext;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StringType;
import scala.Option;

/**
 * Classes of Spark that are internal and differ between its versions. The plugin is compiled with
 * one version, so it reaches what differs by reflection, and only here.
 */
public final class SparkClasses {

  /** Holder of the running SQL script: in Spark 4.1 and newer, and in Spark 4.0. */
  private static final List<String> SCRIPT_HOLDERS =
      List.of(
          "org.apache.spark.sql.catalyst.SqlScriptingContextManager",
          "org.apache.spark.sql.catalyst.SqlScriptingLocalVariableManager");

  private SparkClasses() {}

  /**
   * A new object of a class that has one public constructor. Versions of Spark append parameters.
   * An older Spark gets the first arguments, so the last ones must say what that Spark does without
   * them. A newer Spark gets the defaults that its class declares, as Spark's own callers do.
   */
  public static <T> T create(Class<T> type, Object... arguments) {
    try {
      Constructor<?> constructor = type.getConstructors()[0];
      int count = constructor.getParameterCount();
      Object[] all = Arrays.copyOf(arguments, count);
      for (int i = arguments.length; i < count; i++) {
        all[i] = type.getMethod("$lessinit$greater$default$" + (i + 1)).invoke(null);
      }
      return type.cast(constructor.newInstance(all));
    } catch (ReflectiveOperationException | IllegalArgumentException changed) {
      throw ChangedClass.error(type.getName(), changed);
    }
  }

  /** Whether this thread executes an SQL script, which is one operation with many statements. */
  public static boolean isInScript() {
    for (String holder : SCRIPT_HOLDERS) {
      try {
        Class<?> manager = Class.forName(holder, true, SparkSession.class.getClassLoader());
        return ((Option<?>) manager.getMethod("get").invoke(null)).isDefined();
      } catch (ClassNotFoundException absent) {
        continue;
      } catch (ReflectiveOperationException changed) {
        throw ChangedClass.error(holder, changed);
      }
    }
    throw ChangedClass.error(SCRIPT_HOLDERS.get(0), null);
  }

  /** Whether this is STRING with the collation that compares bytes. */
  public static boolean isPlainString(DataType type) {
    return type instanceof StringType string && string.isUTF8BinaryCollation();
  }

  /** The user of this thread's statement, or else of the process. */
  public static String currentUser() {
    return CurrentUserContext.getCurrentUser();
  }

  /** The UUID by which Spark Connect lists the session. */
  static String uuid(org.apache.spark.sql.SparkSession session) {
    return ((SparkSession) session).sessionUUID();
  }
}
