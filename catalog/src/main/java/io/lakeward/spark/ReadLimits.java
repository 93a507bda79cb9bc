package io.lakeward.spark;

/**
 * How much of one answer is taken: what answers at the uri may be broken, or not what it should be,
 * and the driver's memory is everybody's.
 *
 * @param option the options' common beginning, {@code spark.sql.catalog.<name>.}
 * @param maxRows of one SELECT, CALL or SHOW TABLES
 * @param maxBytes of the same, as sent and as rows on the heap
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
