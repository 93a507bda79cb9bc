package io.lakeward.spark;

import io.lakeward.spark.catalog.SessionCatalog;

/**
 * Spark's session catalog with the namespace {@code sys}, under the name by which it is configured:
 * {@code spark.sql.catalog.spark_catalog=io.lakeward.spark.LakewardSessionCatalog} and {@code
 * spark.sql.catalog.spark_catalog.uri=host:port}.
 */
public final class LakewardSessionCatalog extends SessionCatalog {}
