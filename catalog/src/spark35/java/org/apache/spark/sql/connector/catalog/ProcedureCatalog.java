package org.apache.spark.sql.connector.catalog;

import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;

/** Spark 4's interface of a catalog with procedures, which Spark 3.5 lacks. */
public interface ProcedureCatalog extends CatalogPlugin {

  UnboundProcedure loadProcedure(Identifier ident);

  Identifier[] listProcedures(String[] namespace);
}
