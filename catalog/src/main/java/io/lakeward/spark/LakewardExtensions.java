package io.lakeward.spark;

import io.lakeward.spark.call.CallSyntax;
import io.lakeward.spark.error.LakewardException;
import io.lakeward.spark.version.SparkVersion;
import org.apache.spark.sql.SparkSessionExtensions;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * Adds CALL to the SQL of Spark 3.5, which has no procedures: {@code
 * spark.sql.extensions=io.lakeward.spark.LakewardExtensions}. Spark 4 needs no extension. It loads
 * before any catalog, so a jar for another Spark is refused here by name.
 */
public final class LakewardExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {

  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    try {
      SparkVersion.check(org.apache.spark.package$.MODULE$.SPARK_VERSION());
    } catch (LakewardException wrongJar) {
      throw wrongJar.unchecked();
    }
    CallSyntax.add(extensions);
    return BoxedUnit.UNIT;
  }
}
