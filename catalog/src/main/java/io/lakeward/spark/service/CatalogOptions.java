package io.lakeward.spark.service;

import io.lakeward.spark.connection.ClientAccess;
import io.lakeward.spark.error.LakewardException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The options under {@code spark.sql.catalog.<name>.}; those not named here are ignored.
 *
 * @param target {@code host:port} of the service, or several with commas between them
 * @param timeout how long a read may take; a CALL has no such limit
 * @param retryTimeout how long a running CALL waits for a service that went away
 * @param lake name of the Spark catalog with the lake's tables; without it no lake copy is read by
 *     the lake's own library
 * @param plainName the rows that the plain name of a data table means
 * @param python the Python that executors run; empty = Spark's
 * @param limits of one answer
 * @param access the files with the token and for TLS
 */
public record CatalogOptions(
    String target,
    Duration timeout,
    Duration retryTimeout,
    Optional<String> lake,
    PlainName plainName,
    Optional<String> python,
    ReadLimits limits,
    ClientAccess access) {

  /** The rows that the plain name of a data table means. */
  public enum PlainName {
    /** The lake copy, which is as old as its freshness allows. */
    LAKE,
    /** The lake copy and the log: all rows up to now. */
    FRESH
  }

  /**
   * Required. The Lakeward service: {@code host:port}; the default port is 7707. For a service with
   * a standby, name both, {@code a:7707,b:7707}: the plugin uses the first that accepts a
   * connection.
   */
  public static final String URI = "uri";

  /**
   * How long a SELECT, SHOW or DESCRIBE waits for the service. The limit does not apply to a CALL.
   */
  public static final String TIMEOUT = "timeout";

  /** How long a running CALL waits for a service that stopped answering, such as {@code 5 min}. */
  public static final String RETRY_TIMEOUT = "retry-timeout";

  /**
   * Name of Spark's catalog with the lake's tables, such as {@code lake}. The plugin reads lake
   * copies there.
   */
  public static final String LAKE = "lake";

  /**
   * The rows that the plain name of a data table means: {@code fresh} for all rows up to now, from
   * the lake copy and the log, {@code lake} for the lake copy alone. {@code fresh} needs the package
   * lakeward in the Python of executors.
   */
  public static final String PLAIN_NAME = "plain-name";

  /**
   * The Python with the package lakeward, which executors run to read the log. The driver needs a
   * Python of that name, too. Default: {@code PYSPARK_PYTHON} in the driver's environment, else
   * {@code python3}.
   */
  public static final String PYTHON = "python";

  /** Most rows in one answer of the service. A larger answer is an error that names this option. */
  public static final String MAX_ROWS = "max-rows";

  /** Most bytes of one answer, as sent and as rows in the driver's memory, such as {@code 1g}. */
  public static final String MAX_BYTES = "max-bytes";

  /**
   * File with the token, alone on one line. The plugin reads it again when it changes. Default:
   * {@code LAKEWARD_TOKEN_FILE}, else the token file that a service of the same user wrote into the
   * user's folder.
   */
  public static final String TOKEN_FILE = "token-file";

  /**
   * PEM file with the certificate authorities that the plugin trusts. It turns TLS on. Default:
   * {@code LAKEWARD_TLS_CA}.
   */
  public static final String TLS_CA = "tls.ca";

  /** PEM file with the certificate of this client, for mTLS. Default: {@code LAKEWARD_TLS_CERT}. */
  public static final String TLS_CERT = "tls.cert";

  /** PEM file with the private key of {@code tls.cert}. Default: {@code LAKEWARD_TLS_KEY}. */
  public static final String TLS_KEY = "tls.key";

  /** Options that only the configuration at Spark's start may set. */
  private static final List<String> START_UP =
      List.of(URI, TOKEN_FILE, TLS_CA, TLS_CERT, TLS_KEY, PYTHON);

  private static final int DEFAULT_PORT = 7707;
  private static final String DEFAULT_TIMEOUT = "30s";

  /** A coordinator restarts within seconds; more than a minute is an outage. */
  private static final String DEFAULT_RETRY_TIMEOUT = "60s";

  private static final String DEFAULT_PLAIN_NAME = "fresh";

  /** Ten rows for each of 100,000 tables. */
  private static final String DEFAULT_MAX_ROWS = "1000000";

  /** A quarter of Spark's default driver. */
  private static final String DEFAULT_MAX_BYTES = "256m";

  /** Options that are refused because their user expects protection, with the advice. */
  private static final Map<String, String> REFUSED =
      Map.of(
          "token", "a token in an option is printed: name its file with %s" + TOKEN_FILE,
          "tls-ca", "set %s" + TLS_CA);

  private static final Pattern SERVICE_URI =
      Pattern.compile("(?:lakeward://)?(\\[[0-9A-Fa-f:]+\\]|[A-Za-z0-9_.-]+)(?::([0-9]{1,5}))?/?");
  private static final Pattern COUNT = Pattern.compile("([0-9]{1,12})");
  private static final Pattern SIZE = Pattern.compile("([0-9]{1,12})\\s*([kmg]?)b?");
  private static final Pattern DURATION = Pattern.compile("([0-9]{1,12})\\s*([a-z]*)");

  /**
   * Reads the options of the catalog {@code name}. Throws LakewardException for a wrong one, and
   * for one of the connection or of Python that differs from {@code startUp}, the options at the
   * start of Spark. Users of a shared Spark set options of their sessions, but the credentials and
   * the machines belong to Spark.
   */
  public static CatalogOptions parse(
      String name, Map<String, String> sessionOptions, Map<String, String> startUp)
      throws LakewardException {
    String prefix = prefix(name);
    Map<String, String> options = new HashMap<>(sessionOptions);
    for (String option : START_UP) {
      String value = startUp.get(option);
      if (options.containsKey(option) && !options.get(option).equals(value)) {
        throw new LakewardException(
            ("the option %s%s was set in this session: it decides %s, so it is read from the"
                    + " configuration that Spark was started with (spark-defaults.conf,"
                    + " --properties-file, --conf)")
                .formatted(
                    prefix,
                    option,
                    option.equals(PYTHON)
                        ? "which program executors run"
                        : "where this Spark's token goes"));
      }
      options.put(option, value);
    }
    options.values().removeIf(Objects::isNull);
    for (String refused : REFUSED.keySet()) {
      if (options.containsKey(refused)) {
        throw new LakewardException(
            "the option %s%s is not supported; %s"
                .formatted(prefix, refused, REFUSED.get(refused).formatted(prefix)));
      }
    }
    String uri = options.get(URI);
    if (uri == null || uri.isBlank()) {
      throw new LakewardException(
          ("the catalog %s needs the address of the Lakeward service: set %suri to host:port,"
                  + " such as 127.0.0.1:%d")
              .formatted(name, prefix, DEFAULT_PORT));
    }
    String target = target(prefix + URI, uri.trim());
    return new CatalogOptions(
        target,
        duration(prefix + TIMEOUT, options.getOrDefault(TIMEOUT, DEFAULT_TIMEOUT)),
        duration(
            prefix + RETRY_TIMEOUT, options.getOrDefault(RETRY_TIMEOUT, DEFAULT_RETRY_TIMEOUT)),
        text(options, LAKE),
        plainName(prefix + PLAIN_NAME, options.getOrDefault(PLAIN_NAME, DEFAULT_PLAIN_NAME)),
        text(options, PYTHON),
        new ReadLimits(
            prefix,
            number(
                prefix + MAX_ROWS,
                options.getOrDefault(MAX_ROWS, DEFAULT_MAX_ROWS),
                COUNT,
                "a positive number such as " + DEFAULT_MAX_ROWS),
            number(
                prefix + MAX_BYTES,
                options.getOrDefault(MAX_BYTES, DEFAULT_MAX_BYTES),
                SIZE,
                "a positive size such as 67108864, 256m or 1g")),
        access(prefix, target, options));
  }

  /** How the full names of the options of a catalog begin. */
  public static String prefix(String name) {
    return "spark.sql.catalog." + name + ".";
  }

  private static ClientAccess access(String prefix, String target, Map<String, String> options)
      throws LakewardException {
    return ClientAccess.of(
        target,
        new ClientAccess.Option(prefix + TOKEN_FILE, TOKEN_FILE, "LAKEWARD_TOKEN_FILE"),
        new ClientAccess.Option(prefix + TLS_CA, TLS_CA, "LAKEWARD_TLS_CA"),
        new ClientAccess.Option(prefix + TLS_CERT, TLS_CERT, "LAKEWARD_TLS_CERT"),
        new ClientAccess.Option(prefix + TLS_KEY, TLS_KEY, "LAKEWARD_TLS_KEY"),
        options,
        System.getenv());
  }

  private static String target(String option, String uri) throws LakewardException {
    List<String> addresses = new ArrayList<>();
    for (String address : uri.split(",", -1)) {
      addresses.add(
          address(address.trim())
              .orElseThrow(
                  () ->
                      wrong(
                          option,
                          uri,
                          ("it as host:port or lakeward://host:port, such as 127.0.0.1:%d; several"
                                  + " with commas between them")
                              .formatted(DEFAULT_PORT))));
    }
    return String.join(",", addresses);
  }

  private static Optional<String> address(String uri) {
    Matcher matcher = SERVICE_URI.matcher(uri);
    if (matcher.matches()) {
      int port = matcher.group(2) == null ? DEFAULT_PORT : Integer.parseInt(matcher.group(2));
      if (port > 0 && port <= 0xFFFF) {
        return Optional.of(matcher.group(1) + ":" + port);
      }
    }
    return Optional.empty();
  }

  private static LakewardException wrong(String option, String value, String example) {
    return new LakewardException(
        "the option %s is '%s': write %s".formatted(option, value, example));
  }

  private static PlainName plainName(String option, String text) throws LakewardException {
    return switch (text.trim().toLowerCase(Locale.ROOT)) {
      case "lake" -> PlainName.LAKE;
      case "fresh" -> PlainName.FRESH;
      default -> throw wrong(option, text, "fresh or lake");
    };
  }

  private static Optional<String> text(Map<String, String> options, String option) {
    return Optional.ofNullable(options.get(option)).map(String::trim).filter(text -> !text.isEmpty());
  }

  /** Whether several coordinators are named, of which one leads. */
  boolean hasStandby() {
    return target.contains(",");
  }

  private static Duration duration(String option, String text) throws LakewardException {
    Matcher matcher = DURATION.matcher(text.trim().toLowerCase(Locale.ROOT));
    Duration unit = matcher.matches() ? unit(matcher.group(2)) : null;
    if (unit == null || Long.parseLong(matcher.group(1)) == 0) {
      throw wrong(option, text, "a positive duration such as 500 (ms), 30s or 5 min");
    }
    return unit.multipliedBy(Long.parseLong(matcher.group(1)));
  }

  private static long number(String option, String text, Pattern pattern, String example)
      throws LakewardException {
    Matcher matcher = pattern.matcher(text.trim().toLowerCase(Locale.ROOT));
    if (!matcher.matches() || Long.parseLong(matcher.group(1)) == 0) {
      throw wrong(option, text, example);
    }
    return Long.parseLong(matcher.group(1))
        * (matcher.groupCount() < 2 ? 1 : factor(matcher.group(2)));
  }

  private static long factor(String unit) {
    return switch (unit) {
      case "k" -> 1L << 10;
      case "m" -> 1L << 20;
      case "g" -> 1L << 30;
      default -> 1;
    };
  }

  private static Duration unit(String name) {
    return switch (name) {
      case "", "ms" -> Duration.ofMillis(1);
      case "s", "sec", "second", "seconds" -> Duration.ofSeconds(1);
      case "m", "min", "minute", "minutes" -> Duration.ofMinutes(1);
      case "h", "hour", "hours" -> Duration.ofHours(1);
      default -> null;
    };
  }
}
