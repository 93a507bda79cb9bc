package io.lakeward.spark.version;

import io.lakeward.spark.error.LakewardException;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.internal.SessionState;
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
      throw unsupported(type.getName(), changed);
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
        throw unsupported(holder, changed);
      }
    }
    throw unsupported(SCRIPT_HOLDERS.get(0), null);
  }

  /**
   * The catalog of that name in a session. Throws what Spark throws for a catalog that is unknown,
   * or does not start.
   */
  public static CatalogPlugin catalog(SparkSession session, String name) {
    return (CatalogPlugin) ask(session, "catalog", name);
  }

  /** The catalog that a session uses. Throws what Spark throws if it does not start. */
  public static CatalogPlugin currentCatalog(SparkSession session) {
    return (CatalogPlugin) ask(session, "currentCatalog");
  }

  /** The namespace that a session uses, in its current catalog. */
  public static String[] currentNamespace(SparkSession session) {
    return (String[]) ask(session, "currentNamespace");
  }

  /**
   * Calls the catalog manager of a session, which is a class in Spark 4.1 and an interface in newer
   * versions. Throws what the call throws.
   */
  private static Object ask(SparkSession session, String method, String... arguments) {
    Class<?>[] types = Arrays.stream(arguments).map(String::getClass).toArray(Class<?>[]::new);
    try {
      Object manager = SessionState.class.getMethod("catalogManager").invoke(session.sessionState());
      return CatalogManager.class.getMethod(method, types).invoke(manager, (Object[]) arguments);
    } catch (InvocationTargetException error) {
      throw LakewardException.unchecked(error.getCause());
    } catch (ReflectiveOperationException changed) {
      throw unsupported(CatalogManager.class.getName(), changed);
    }
  }

  private static IllegalStateException unsupported(String type, Exception cause) {
    return new IllegalStateException(
        "this version of Spark has another class %s than Lakeward's plugin expects: use a version of Spark that docs/versions.md names"
            .formatted(type),
        cause);
  }
}
