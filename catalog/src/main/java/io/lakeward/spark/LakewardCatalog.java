package io.lakeward.spark;

import io.lakeward.spark.catalog.ServiceCatalog;
import io.lakeward.spark.thrift.MetadataCalls;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The Spark catalog of a Lakeward service, under the name by which it is configured: {@code
 * spark.sql.catalog.<name>=io.lakeward.spark.LakewardCatalog} and {@code
 * spark.sql.catalog.<name>.uri=host:port}. {@code service.CatalogOptions} has all options.
 */
public final class LakewardCatalog extends ServiceCatalog {

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    super.initialize(name, options);
    MetadataCalls.install();
  }
}
