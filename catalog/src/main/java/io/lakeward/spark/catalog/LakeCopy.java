package io.lakeward.spark.catalog;

import java.util.Arrays;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * The lake table of a data table. Its columns are those of the source, in the source's order and
 * with the source's comments. All other columns of the lake table are metadata columns, which
 * {@code SELECT *} leaves out. A value.
 *
 * @param table as the lake's catalog loaded it
 */
record LakeCopy(SupportsRead table) {

  /**
   * The columns of {@code source} that the lake has, with the lake's types. A column that was added
   * to the source after this version of the lake table is missing.
   */
  StructType schema(StructType source) {
    return new StructType(
        Arrays.stream(source.fields())
            .flatMap(field -> inLake(field.name()).map(column -> field(column, field)).stream())
            .toArray(StructField[]::new));
  }

  /** Names of the columns of {@code source} that the lake does not have. */
  String missing(StructType source) {
    return Arrays.stream(source.fieldNames())
        .filter(name -> inLake(name).isEmpty())
        .collect(Collectors.joining(","));
  }

  MetadataColumn[] metadataColumns(StructType source) {
    Set<String> sourceNames = Set.of(source.fieldNames());
    Stream<MetadataColumn> more =
        Arrays.stream(table.columns())
            .filter(column -> !sourceNames.contains(column.name()))
            .map(LakeColumn::of);
    Stream<MetadataColumn> own =
        table instanceof SupportsMetadataColumns withMetadata
            ? Arrays.stream(withMetadata.metadataColumns())
            : Stream.empty();
    return Stream.concat(more, own).toArray(MetadataColumn[]::new);
  }

  private Optional<Column> inLake(String name) {
    return Arrays.stream(table.columns()).filter(column -> column.name().equals(name)).findFirst();
  }

  private static StructField field(Column column, StructField source) {
    StructField field =
        new StructField(
            column.name(),
            column.dataType(),
            column.nullable(),
            org.apache.spark.sql.types.Metadata.empty());
    String comment = source.getComment().isDefined() ? source.getComment().get() : column.comment();
    return comment == null ? field : field.withComment(comment);
  }

  /** A column that the lake table has and the source does not. */
  private record LakeColumn(String name, DataType dataType, boolean isNullable, String comment)
      implements MetadataColumn {

    static MetadataColumn of(Column column) {
      return new LakeColumn(column.name(), column.dataType(), column.nullable(), column.comment());
    }
  }
}
