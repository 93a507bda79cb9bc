package io.lakeward.spark.catalog;

import io.lakeward.spark.error.LakewardException;
import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TruncatableTable;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Name, comment and columns of a table that the service describes. Spark loads a table for TRUNCATE
 * as it does for a query, so TRUNCATE is refused here. {@link ServiceCatalog} refuses the other
 * statements that must not write the table when it loads the table for them.
 */
abstract class ServiceTable implements SupportsRead, TruncatableTable {

  private final String name;
  private final String comment;
  private final StructType schema;
  private final Column[] columns;

  /** {@code name} with catalog and namespace. */
  ServiceTable(String name, String comment, StructType schema) {
    this.name = name;
    this.comment = comment;
    this.schema = schema;
    this.columns = columns(schema);
  }

  /** The reason why the table cannot be truncated, and what to do instead. */
  abstract String whyNotTruncated();

  @Override
  public final String name() {
    return name;
  }

  /** The name that plans and error messages of Spark show. */
  @Override
  public final String toString() {
    return name;
  }

  @Override
  public final StructType schema() {
    return schema;
  }

  @Override
  public Column[] columns() {
    return columns.clone();
  }

  /** The comment, and that Spark does not manage the table. */
  @Override
  public Map<String, String> properties() {
    return comment.isEmpty()
        ? Map.of(TableCatalog.PROP_EXTERNAL, "true")
        : Map.of(TableCatalog.PROP_EXTERNAL, "true", TableCatalog.PROP_COMMENT, comment);
  }

  @Override
  public Set<TableCapability> capabilities() {
    return Set.of(TableCapability.BATCH_READ);
  }

  @Override
  public final boolean truncateTable() {
    throw new LakewardException("cannot truncate " + name + ": " + whyNotTruncated()).unchecked();
  }

  /** The columns of a schema, with their comments. */
  static Column[] columns(StructType schema) {
    return Arrays.stream(schema.fields()).map(ServiceTable::column).toArray(Column[]::new);
  }

  private static Column column(StructField field) {
    String comment = field.getComment().isDefined() ? field.getComment().get() : null;
    return Column.create(field.name(), field.dataType(), field.nullable(), comment, null);
  }
}
