package io.lakeward.spark.service;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lakeward.spark.error.LakewardException;
import io.lakeward.sys.rpc.v1.ListTablesResponse;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The limits of a service's answer, and the errors for larger answers. */
class ReadLimitsTest {

  private static final ReadLimits LIMITS =
      new ReadLimits("spark.sql.catalog.fluss.", 1_000, 1 << 20);

  @Test
  void moreRowsOrBytesAreAnErrorThatNamesTheOption() throws LakewardException {
    LIMITS.checkRows(1_000);
    LIMITS.checkBytes(1 << 20);
    String rows =
        assertThrows(LakewardException.class, () -> LIMITS.checkRows(1_001)).getMessage();
    assertTrue(rows.contains("more than 1000 rows"), rows);
    assertTrue(rows.contains("spark.sql.catalog.fluss.max-rows"), rows);
    String bytes =
        assertThrows(LakewardException.class, () -> LIMITS.checkBytes((1 << 20) + 1)).getMessage();
    assertTrue(bytes.contains("spark.sql.catalog.fluss.max-bytes"), bytes);
  }

  @ParameterizedTest
  @ValueSource(
      ints = {Integer.MAX_VALUE, LimitedChannel.MAX_METADATA_BYTES + 1, -2, Integer.MIN_VALUE})
  void metadataThatClaimsMoreThanThereCanBeIsRefused(int length) {
    IOException error = assertThrows(IOException.class, () -> lengthOf(length));
    assertTrue(error.getMessage().contains(length + " bytes of metadata"), error.getMessage());
  }

  @ParameterizedTest
  @ValueSource(ints = {-1, 0, 8, LimitedChannel.MAX_METADATA_BYTES})
  void metadataThatThereCanBeIsRead(int length) throws IOException {
    assertEquals(4, lengthOf(length));
  }

  private static int lengthOf(int claimed) throws IOException {
    ByteBuffer stream = ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN).putInt(claimed);
    try (LimitedChannel channel = new LimitedChannel(new ByteArrayInputStream(stream.array()))) {
      return channel.readFully(ByteBuffer.allocate(4));
    }
  }

  @Test
  void aListOfTablesEnds() throws LakewardException {
    TableListing listing = new TableListing(LIMITS);
    listing.add(page(List.of("a"), "1"));
    listing.add(page(List.of("b"), "2"));
    listing.add(page(List.of(), ""));
    assertEquals(List.of("a", "b"), listing.names());
    assertEquals(Map.of(), listing.tables());
  }

  @Test
  void aListOfTablesThatNeverEndsIsAnError() throws LakewardException {
    TableListing again = new TableListing(LIMITS);
    again.add(page(List.of("a"), "1"));
    LakewardException repeated =
        assertThrows(LakewardException.class, () -> again.add(page(List.of("b"), "1")));
    assertTrue(repeated.getMessage().contains("never ends: a page comes again"));
    LakewardException empty =
        assertThrows(
            LakewardException.class, () -> new TableListing(LIMITS).add(page(List.of(), "next")));
    assertTrue(empty.getMessage().contains("a page without names"));
    LakewardException endless =
        assertThrows(
            LakewardException.class,
            () -> new TableListing(LIMITS).add(page(Collections.nCopies(1_001, "t"), "next")));
    assertTrue(endless.getMessage().contains("more than 1000 rows"));
  }

  private static ListTablesResponse page(List<String> names, String next) {
    return ListTablesResponse.newBuilder().addAllTableNames(names).setNextPageToken(next).build();
  }

  @Test
  void progressIsCut() {
    String cut = ProgressLog.cut("x".repeat(100_000));
    assertEquals(ProgressLog.MAX_CHARACTERS + 3, cut.length());
    assertEquals("short", ProgressLog.cut("short"));
  }

  @ParameterizedTest
  @CsvSource({"67108864, 67108864", "256m, 268435456", "1G, 1073741824", "' 5 kb ', 5120"})
  void aSizeMayHaveAUnit(String text, long bytes) throws LakewardException {
    CatalogOptions options = parse(Map.of("uri", "a", "max-bytes", text, "max-rows", "7"));
    assertEquals(new ReadLimits("spark.sql.catalog.fluss.", 7, bytes), options.limits());
  }

  @ParameterizedTest
  @CsvSource({"max-rows, 0", "max-rows, many", "max-rows, -1", "max-bytes, 0", "max-bytes, 1 TB"})
  void anotherLimitIsRefusedByName(String option, String text) {
    LakewardException error =
        assertThrows(LakewardException.class, () -> parse(Map.of("uri", "a", option, text)));
    assertTrue(error.getMessage().contains("spark.sql.catalog.fluss." + option));
  }

  private static CatalogOptions parse(Map<String, String> options) throws LakewardException {
    return CatalogOptions.parse("fluss", options, options);
  }
}
