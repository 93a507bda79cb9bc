package io.lakeward.spark;

import io.lakeward.spark.call.CallParser;
import org.apache.spark.sql.SparkSessionExtensions;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * Adds CALL to the SQL of Spark 3.5, which has no procedures: {@code
 * spark.sql.extensions=io.lakeward.spark.LakewardExtensions}.
 */
public final class LakewardExtensions
    extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {

  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectParser(CallParser::new);
    return BoxedUnit.UNIT;
  }
}
