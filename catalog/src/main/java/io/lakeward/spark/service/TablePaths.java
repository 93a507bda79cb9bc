package io.lakeward.spark.service;

import io.lakeward.rpc.v1.PbTablePath;

/** The paths of data tables in requests. */
public final class TablePaths {

  private TablePaths() {}

  public static PbTablePath of(String database, String table) {
    return PbTablePath.newBuilder().setDatabaseName(database).setTableName(table).build();
  }

  /** The name of the table with its database, without a catalog. */
  public static String text(PbTablePath path) {
    return path.getDatabaseName() + "." + path.getTableName();
  }
}
