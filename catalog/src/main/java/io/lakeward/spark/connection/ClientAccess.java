package io.lakeward.spark.connection;

import io.lakeward.spark.error.LakewardException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;

/**
 * The files with the plugin's credentials and with the issuers that it trusts. It has no secret
 * itself, so it may be printed. An option overrides its environment variable, as in
 * tiering/access/client_access.py.
 *
 * @param tokenFile the file with the token; empty = the one in the user's folder, if there is one
 * @param tlsCa the trusted issuers of the service's certificate; it turns TLS on
 * @param tlsCert the client's own certificate
 * @param tlsKey the key of that certificate
 */
public record ClientAccess(
    Optional<Path> tokenFile, Optional<Path> tlsCa, Optional<Path> tlsCert, Optional<Path> tlsKey) {

  /**
   * Reads the options; throws LakewardException for files that cannot be read, and for a token that
   * would be sent to {@code target} in clear text.
   */
  public static ClientAccess of(
      String target,
      Option tokenFile,
      Option tlsCa,
      Option tlsCert,
      Option tlsKey,
      Map<String, String> options,
      Map<String, String> environment)
      throws LakewardException {
    ClientAccess access =
        new ClientAccess(
            tokenFile.file(options, environment),
            tlsCa.file(options, environment),
            tlsCert.file(options, environment),
            tlsKey.file(options, environment));
    if (access.tlsCert.isPresent() != access.tlsKey.isPresent()) {
      throw new LakewardException(
          "only one of the options %s and %s is set: set both, or neither"
              .formatted(tlsCert.name(), tlsKey.name()));
    }
    Optional<String> exposed = access.exposedAddress(target);
    if (access.tokenFile.isPresent() && exposed.isPresent()) {
      throw new LakewardException(
          ("the token in %s is not sent to %s in clear text: start the service with --server-cert and"
                  + " --server-key, and set %s to the file with the issuer of its certificate")
              .formatted(access.tokenFile.get(), exposed.get(), tlsCa.name()));
    }
    return access;
  }

  /** One option: its full name, its key in the catalog's options, its environment variable. */
  public record Option(String name, String key, String variable) {

    private Optional<Path> file(Map<String, String> options, Map<String, String> environment)
        throws LakewardException {
      String option = options.getOrDefault(key, "").trim();
      String text = option.isEmpty() ? environment.getOrDefault(variable, "").trim() : option;
      if (text.isEmpty()) {
        return Optional.empty();
      }
      Path file = Path.of(text);
      if (!Files.isReadable(file)) {
        throw new LakewardException(
            "the file %s of %s cannot be read: check its path and its rights"
                .formatted(file, option.isEmpty() ? variable : name));
      }
      return Optional.of(file);
    }
  }

  /** Whether the connection uses TLS. */
  public boolean isEncrypted() {
    return tlsCa.isPresent() || tlsCert.isPresent();
  }

  /**
   * The file with the token for the service at {@code host:port}, or at several with commas between
   * them; empty where none may be sent.
   */
  Optional<Path> tokenPath(String target, Map<String, String> environment) {
    if (exposedAddress(target).isPresent()) {
      return Optional.empty();
    }
    // A standby does not accept the token of another coordinator.
    return tokenFile.isPresent() || target.contains(",")
        ? tokenFile
        : Optional.of(
            folder(environment).resolve("tokens").resolve(ServiceAddress.of(target).tokenFileName()));
  }

  /** An address to which a token would go over the network in clear text. */
  private Optional<String> exposedAddress(String target) {
    return isEncrypted()
        ? Optional.empty()
        : AddressList.split(target).stream()
            .filter(address -> !ServiceAddress.of(address).staysOnThisMachine())
            .findFirst();
  }

  private static Path folder(Map<String, String> environment) {
    String named = environment.getOrDefault("LAKEWARD_HOME", "");
    String home = environment.getOrDefault("HOME", System.getProperty("user.home"));
    return named.isEmpty() ? Path.of(home, ".lakeward") : Path.of(named);
  }
}
