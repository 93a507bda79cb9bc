package io.lakeward.spark.service;

import io.lakeward.spark.error.LakewardException;

/**
 * Limits of one answer, because all sessions share the driver's memory. The service may be broken,
 * or may be another program.
 *
 * @param option the common prefix of the options, {@code spark.sql.catalog.<name>.}
 * @param maxRows rows of one SELECT, CALL or SHOW TABLES
 * @param maxBytes bytes of the same, as sent and as rows on the heap
 */
record ReadLimits(String option, long maxRows, long maxBytes) {

  /** Throws if the answer has more rows. */
  void checkRows(long rows) throws LakewardException {
    if (rows > maxRows) {
      throw tooLarge("%d rows".formatted(maxRows), CatalogOptions.MAX_ROWS);
    }
  }

  /** Throws if the answer has more bytes. */
  void checkBytes(long bytes) throws LakewardException {
    if (bytes > maxBytes) {
      throw tooManyBytes();
    }
  }

  LakewardException tooManyBytes() {
    return tooLarge("%d bytes".formatted(maxBytes), CatalogOptions.MAX_BYTES);
  }

  private LakewardException tooLarge(String limit, String name) {
    return new LakewardException(
        ("the service's answer has more than %s. Ask for less with WHERE or LIMIT, or raise %s%s.")
            .formatted(limit, option, name));
  }
}
