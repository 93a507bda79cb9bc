package io.lakeward.spark;

import io.lakeward.sys.rpc.v1.DescribeTableResponse;
import java.util.Optional;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.types.StructType;

/**
 * The data tables of a catalog: the service describes them, the lake's own catalog has the rows.
 * Thread-safe.
 */
final class DataTables {

  private final String catalog;
  private final ServiceClient service;
  private final LakeCatalog lake;

  /** {@code catalog}: its name. */
  DataTables(String catalog, ServiceClient service, LakeCatalog lake) {
    this.catalog = catalog;
    this.service = service;
    this.lake = lake;
  }

  /**
   * As it is now; a table whose rows cannot be read is described all the same. An unknown one is
   * TABLE_OR_VIEW_NOT_FOUND. {@code namespace} as it is spelled.
   */
  Table now(String namespace, String name) throws LakewardException {
    DescribeTableResponse said = service.describeTable(namespace, name);
    String fullName = fullName(namespace, said);
    StructType source = source(fullName, said);
    try {
      Optional<LakeCopy> copy = copy(said, LakeCatalog.NOW);
      return copy.isPresent()
          ? DataTable.readable(fullName, said, source, copy.get())
          : DataTable.unreadable(fullName, said, source, said.getNotInLake());
    } catch (LakewardException unreadable) {
      return DataTable.unreadable(fullName, said, source, unreadable.getMessage());
    }
  }

  /** As it was when {@code look} looks; throws LakewardException if it cannot be read so. */
  Table past(String namespace, String name, LakeCatalog.Look look) throws LakewardException {
    DescribeTableResponse said = service.describeTable(namespace, name);
    String fullName = fullName(namespace, said);
    StructType source = source(fullName, said);
    try {
      Optional<LakeCopy> copy = copy(said, look);
      if (copy.isPresent()) {
        return DataTable.readable(fullName, said, source, copy.get());
      }
    } catch (LakewardException unreadable) {
      throw DataTable.cannotRead(fullName, unreadable.getMessage());
    }
    throw DataTable.cannotRead(fullName, said.getNotInLake());
  }

  private Optional<LakeCopy> copy(DescribeTableResponse said, LakeCatalog.Look look)
      throws LakewardException {
    return said.getLakePathCount() == 0
        ? Optional.empty()
        : lake.find(said.getLakePathList(), look).map(LakeCopy::new);
  }

  private String fullName(String namespace, DescribeTableResponse said) {
    return String.join(".", catalog, namespace, said.getName());
  }

  private static StructType source(String fullName, DescribeTableResponse said)
      throws LakewardException {
    return ArrowRows.schema(fullName, said.getSchema().toByteArray());
  }
}
