package io.lakeward.spark.catalog;

import java.util.stream.Stream;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** The columns of the changes in the log of a table, with Fluss's names. */
final class Changelog {

  private static final StructType OF_RECORD =
      new StructType()
          .add(
              DataTypes.createStructField("_change_type", DataTypes.StringType, false)
                  .withComment("Kind of the change: +A, +I, -U, +U or -D."))
          .add(
              DataTypes.createStructField("_log_offset", DataTypes.LongType, false)
                  .withComment("Offset of the record in the log of its bucket."))
          .add(
              DataTypes.createStructField("_commit_timestamp", DataTypes.TimestampType, false)
                  .withComment("When the store wrote the record."));

  private Changelog() {}

  /** The columns of the change, then those of the table. */
  static StructType schema(StructType table) {
    return new StructType(
        Stream.of(OF_RECORD.fields(), table.fields())
            .flatMap(Stream::of)
            .toArray(StructField[]::new));
  }
}
