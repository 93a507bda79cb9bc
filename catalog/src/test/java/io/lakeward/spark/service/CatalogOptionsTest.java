package io.lakeward.spark.service;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lakeward.spark.error.LakewardException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class CatalogOptionsTest {

  private static CatalogOptions parse(Map<String, String> options) throws LakewardException {
    return CatalogOptions.parse("fluss", options, options);
  }

  @ParameterizedTest
  @CsvSource({
    "localhost, localhost:7707",
    "lakeward://localhost, localhost:7707",
    "' lakeward://a.b-c:9/ ', a.b-c:9",
    "127.0.0.1:1234, 127.0.0.1:1234",
    "[::1]:1234, [::1]:1234",
    "'a:1, lakeward://b,[::1]:2/', 'a:1,b:7707,[::1]:2'"
  })
  void aUriIsHostAndPort(String uri, String target) throws LakewardException {
    assertEquals(target, parse(Map.of("uri", uri)).target());
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "http://a:1", "a:0", "a:65536", "a:b", "a b", "::1:5", "a:1/path", "a:1,", "a:1,,b:2"
      })
  void anotherUriIsRefusedByName(String uri) {
    LakewardException error =
        assertThrows(LakewardException.class, () -> parse(Map.of("uri", uri)));
    assertTrue(error.getMessage().contains("spark.sql.catalog.fluss.uri is '" + uri + "'"));
  }

  @Test
  void withoutAUriTheOptionToSetIsNamed() {
    LakewardException error = assertThrows(LakewardException.class, () -> parse(Map.of()));
    assertTrue(error.getMessage().contains("set spark.sql.catalog.fluss.uri to host:port"));
  }

  @ParameterizedTest
  @CsvSource({"500, 500", "500ms, 500", "30s, 30000", "5 min, 300000", "' 2 HOURS ', 7200000"})
  void aDurationHasAUnit(String text, long millis) throws LakewardException {
    assertEquals(Duration.ofMillis(millis), parse(Map.of("uri", "a", "timeout", text)).timeout());
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "soon", "-1s", "0", "5 fortnights", "1.5s"})
  void anotherDurationIsRefusedByName(String text) {
    LakewardException error =
        assertThrows(
            LakewardException.class, () -> parse(Map.of("uri", "a", "retry-timeout", text)));
    assertTrue(error.getMessage().contains("spark.sql.catalog.fluss.retry-timeout"));
  }

  @Test
  void aPlainNameMeansAllRowsUpToNowByDefault() throws LakewardException {
    assertEquals(CatalogOptions.PlainName.FRESH, parse(Map.of("uri", "a")).plainName());
    assertEquals(
        CatalogOptions.PlainName.LAKE,
        parse(Map.of("uri", "a", "plain-name", " Lake ")).plainName());
  }

  @Test
  void anotherPlainNameIsRefusedByName() {
    LakewardException error =
        assertThrows(
            LakewardException.class, () -> parse(Map.of("uri", "a", "plain-name", "new")));
    assertTrue(
        error
            .getMessage()
            .contains("spark.sql.catalog.fluss.plain-name is 'new': write fresh or lake"));
  }

  @Test
  void timeoutsHaveDefaults() throws LakewardException {
    CatalogOptions options = parse(Map.of("uri", "a"));
    assertEquals(Duration.ofSeconds(30), options.timeout());
    assertEquals(Duration.ofSeconds(60), options.retryTimeout());
  }

  @ParameterizedTest
  @ValueSource(strings = {"token", "tls-ca"})
  void anOptionThatWouldProtectIsNotIgnored(String option) {
    LakewardException error =
        assertThrows(
            LakewardException.class, () -> parse(Map.of("uri", "a", option, "very secret")));
    assertTrue(error.getMessage().contains("spark.sql.catalog.fluss." + option));
    assertFalse(error.getMessage().contains("very secret"));
  }

  @ParameterizedTest
  @ValueSource(strings = {"uri", "token-file", "tls.ca", "tls.cert", "tls.key", "python"})
  void aSessionCannotSayWithWhomThisSparkSpeaksAndWhatItRuns(
      String option, @TempDir Path folder) throws Exception {
    String file = Files.writeString(folder.resolve("token"), "lw_a_secret").toString();
    Map<String, String> startUp = Map.of("uri", "127.0.0.1:1", "token-file", file, "tls.ca", file);
    Map<String, String> session = new HashMap<>(startUp);
    assertEquals("127.0.0.1:1", CatalogOptions.parse("fluss", session, startUp).target());
    session.put(option, "127.0.0.1:2");
    LakewardException error =
        assertThrows(
            LakewardException.class, () -> CatalogOptions.parse("fluss", session, startUp));
    assertTrue(error.getMessage().contains("spark.sql.catalog.fluss." + option + " was set"));
    assertTrue(error.getMessage().contains("spark-defaults.conf"));
  }

  @Test
  void aSessionThatTakesAnOptionAwayHasTheOneOfTheStart(@TempDir Path folder) throws Exception {
    String file = Files.writeString(folder.resolve("ca"), "a certificate").toString();
    Map<String, String> startUp = Map.of("uri", "127.0.0.1:1", "tls.ca", file);
    CatalogOptions options = CatalogOptions.parse("fluss", Map.of("lake", "ice"), startUp);
    assertEquals("127.0.0.1:1", options.target());
    assertTrue(options.access().isEncrypted());
  }

  @Test
  void aTokenDoesNotLeaveThisMachineInClearText(@TempDir Path folder) throws Exception {
    String token = Files.writeString(folder.resolve("token"), "lw_a_secret").toString();
    for (String uri : List.of("lake.example", "10.0.0.5:1", "127.0.0.1:1,b:2", "[fe80::1]:7")) {
      LakewardException error =
          assertThrows(
              LakewardException.class, () -> parse(Map.of("uri", uri, "token-file", token)));
      assertTrue(error.getMessage().contains("in clear text"), error.getMessage());
      assertTrue(error.getMessage().contains("spark.sql.catalog.fluss.tls.ca"));
      assertEquals(uri.split(",").length, parse(Map.of("uri", uri)).target().split(",").length);
      parse(Map.of("uri", uri, "token-file", token, "tls.ca", token));
    }
    for (String uri : List.of("127.8.0.1", "localhost", "[::1]:7", "0.0.0.0:7", "[::]:7")) {
      parse(Map.of("uri", uri, "token-file", token));
    }
  }

  @Test
  void filesOfTheConnectionAreNamedAndRead(@TempDir Path folder) throws Exception {
    Path token = Files.writeString(folder.resolve("token"), "lw_a_secret");
    CatalogOptions options = parse(Map.of("uri", "localhost", "token-file", token.toString()));
    assertEquals(Optional.of(token), options.access().tokenFile());
    assertFalse(options.access().isEncrypted());
    assertFalse(options.toString().contains("secret"));
    LakewardException missing =
        assertThrows(
            LakewardException.class,
            () -> parse(Map.of("uri", "a", "tls.ca", folder.resolve("no").toString())));
    assertTrue(missing.getMessage().contains("of spark.sql.catalog.fluss.tls.ca cannot be read"));
    LakewardException alone =
        assertThrows(
            LakewardException.class,
            () -> parse(Map.of("uri", "a", "tls.cert", token.toString())));
    assertTrue(alone.getMessage().contains("spark.sql.catalog.fluss.tls.key"));
  }

  @Test
  void theLakeIsTheNameOfACatalogIfOneIsGiven() throws LakewardException {
    assertEquals(Optional.of("ice"), parse(Map.of("uri", "a", "lake", " ice ")).lake());
    assertEquals(Optional.empty(), parse(Map.of("uri", "a", "lake", " ")).lake());
    assertEquals(Optional.empty(), parse(Map.of("uri", "a")).lake());
  }
}
