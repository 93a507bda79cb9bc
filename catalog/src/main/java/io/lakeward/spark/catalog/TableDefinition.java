package io.lakeward.spark.catalog;

import io.lakeward.spark.define.Partitions;
import io.lakeward.spark.error.LakewardException;
import io.lakeward.spark.service.ArrowRows;
import io.lakeward.sys.rpc.v1.DescribeTableResponse;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * What creates a table of the store again, for SHOW CREATE TABLE, and its keys and partitions. A
 * value.
 *
 * @param name with catalog and namespace
 * @param partitions of the table
 */
record TableDefinition(String name, DescribeTableResponse described, Partitions partitions) {

  /**
   * The properties for the statement that Spark executes now; {@code shown}, except for
   * SHOW CREATE TABLE.
   */
  Map<String, String> properties(Supplier<Map<String, String>> shown) {
    if (!DefinitionCallers.showCreateTable()) {
      return shown.get();
    }
    Map<String, String> properties = new HashMap<>(described.getDefinitionMap());
    properties.put(TableCatalog.PROP_PROVIDER, FreshTable.PROVIDER);
    if (!described.getComment().isEmpty()) {
      properties.put(TableCatalog.PROP_COMMENT, described.getComment());
    }
    properties.replaceAll((property, value) -> escaped(value));
    return properties;
  }

  /** The columns for the statement that Spark executes now: with NOT NULL as they are defined. */
  Column[] columns(Column[] shown) {
    return DefinitionCallers.showCreateTable()
        ? LakewardException.unchecked(() -> ServiceTable.columns(schema()))
        : shown;
  }

  /** The partition keys, without those that {@code schema} lacks. */
  Transform[] partitioning(StructType schema) {
    return described.getPartitionKeysList().stream()
        .filter(key -> schema.getFieldIndex(key).isDefined())
        .map(TableDefinition::quoted)
        .map(Expressions::identity)
        .toArray(Transform[]::new);
  }

  /**
   * The primary key for the statement that Spark executes now: empty for a log table, and for SHOW
   * CREATE TABLE.
   */
  NamedReference[] primaryKey() {
    return DefinitionCallers.showCreateTable()
        ? new NamedReference[0]
        : described.getPrimaryKeyList().stream()
            .map(TableDefinition::quoted)
            .map(Expressions::column)
            .toArray(NamedReference[]::new);
  }

  /** A column's name as Spark's expressions parse it: it may be a reserved word or have a dash. */
  private static String quoted(String column) {
    return "`" + column.replace("`", "``") + "`";
  }

  /** Spark prints texts in quotes and escapes quotes in them, but not the character that escapes. */
  private static String escaped(String text) {
    return text.replace("\\", "\\\\");
  }

  private StructType schema() throws LakewardException {
    StructField[] fields = ArrowRows.schema(name, described.getSchema().toByteArray()).fields();
    for (int i = 0; i < fields.length; i++) {
      fields[i] = escaped(fields[i]);
    }
    return new StructType(fields);
  }

  /** A field with its comment, and those of the fields in it, as Spark prints them right. */
  private static StructField escaped(StructField field) {
    StructField inner =
        new StructField(
            field.name(), escaped(field.dataType()), field.nullable(), field.metadata());
    return field.getComment().isDefined()
        ? inner.withComment(escaped(field.getComment().get()))
        : inner;
  }

  private static DataType escaped(DataType type) {
    if (type instanceof StructType struct) {
      return new StructType(
          Arrays.stream(struct.fields())
              .map(TableDefinition::escaped)
              .toArray(StructField[]::new));
    }
    if (type instanceof ArrayType array) {
      return new ArrayType(escaped(array.elementType()), array.containsNull());
    }
    return type instanceof MapType map
        ? new MapType(
            escaped(map.keyType()), escaped(map.valueType()), map.valueContainsNull())
        : type;
  }
}
