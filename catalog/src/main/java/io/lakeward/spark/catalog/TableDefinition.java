package io.lakeward.spark.catalog;

import io.lakeward.spark.define.Partitions;
import io.lakeward.spark.error.LakewardException;
import io.lakeward.spark.service.ArrowRows;
import io.lakeward.sys.rpc.v1.DescribeTableResponse;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * What creates a table of the store again, for SHOW CREATE TABLE, and its partitions. A value.
 *
 * @param name with catalog and namespace
 * @param partitions of the table
 */
record TableDefinition(String name, DescribeTableResponse described, Partitions partitions) {

  /** The properties for the statement that Spark executes now; {@code shown} for all but one. */
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
        ? LakewardException.unchecked(() -> ReadOnlyTable.columns(schema()))
        : shown;
  }

  /** Spark prints texts in quotes and escapes quotes in them, but not the character that escapes. */
  private static String escaped(String text) {
    return text.replace("\\", "\\\\");
  }

  private StructType schema() throws LakewardException {
    StructField[] fields = ArrowRows.schema(name, described.getSchema().toByteArray()).fields();
    for (int i = 0; i < fields.length; i++) {
      if (fields[i].getComment().isDefined()) {
        fields[i] = fields[i].withComment(escaped(fields[i].getComment().get()));
      }
    }
    return new StructType(fields);
  }
}
