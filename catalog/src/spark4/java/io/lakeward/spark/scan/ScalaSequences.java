package io.lakeward.spark.scan;

import java.util.List;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Scala's sequences, as Spark's plans have them. */
public final class ScalaSequences {

  private ScalaSequences() {}

  /** A sequence of the items. */
  @SafeVarargs
  public static <T> Seq<T> of(T... items) {
    return of(List.of(items));
  }

  /** A sequence of the items. */
  public static <T> Seq<T> of(List<? extends T> items) {
    return cast(CollectionConverters.asScala(items).toSeq());
  }

  /** A cast, since Scala's sequences are covariant, which Java cannot express. */
  @SuppressWarnings("unchecked")
  public static <T> Seq<T> cast(Object sequence) {
    return (Seq<T>) sequence;
  }
}
