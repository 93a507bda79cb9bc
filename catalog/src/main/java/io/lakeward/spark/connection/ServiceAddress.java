package io.lakeward.spark.connection;

import java.io.IOException;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.regex.Pattern;

/**
 * One address of a service, {@code host:port}: whether it is on this machine alone, and the name of
 * the file with the token of its owner. The names are those of tiering/access/loopback.py, which
 * says why a file is named by the address.
 */
record ServiceAddress(String host, int port) {

  private static final String LOCALHOST = "127.0.0.1";
  private static final List<Path> MACHINE_ID_FILES =
      List.of(
          Path.of("/etc/machine-id"),
          Path.of("/var/lib/dbus/machine-id"),
          Path.of("/proc/sys/kernel/hostname"));
  private static final int MACHINE_ID_DIGITS = 16;
  private static final String OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  private static final Pattern IPV4 = Pattern.compile(OCTET + "([.]" + OCTET + "){3}");

  /** Parts {@code host:port}, with an IPv6 address in brackets. */
  static ServiceAddress of(String address) {
    int colon = address.lastIndexOf(':');
    return new ServiceAddress(
        address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)));
  }

  /**
   * The host to connect to, without brackets: {@code localhost} is 127.0.0.1, and no other address
   * of that name.
   */
  String connectedHost() {
    return isLocalhost() ? LOCALHOST : host.replace("[", "").replace("]", "");
  }

  boolean isLocalhost() {
    return host.equalsIgnoreCase("localhost");
  }

  /** Whether a connection stays on this machine. No name but {@code localhost} is looked up. */
  boolean staysOnThisMachine() {
    return ip().map(ip -> ip.isLoopbackAddress() || ip.isAnyLocalAddress()).orElse(false);
  }

  /** The name of the file with the token of the service at this address of this machine. */
  String tokenFileName() {
    return tokenFileName(machineId());
  }

  String tokenFileName(String machineId) {
    String name = ip().map(ServiceAddress::spelled).orElseGet(() -> host.toLowerCase(Locale.ROOT));
    return name + "_" + port + "_" + machineId;
  }

  /** The digits for the content of {@code /etc/machine-id}, which is confidential itself. */
  static String hashedMachineId(String text) {
    try {
      byte[] digest =
          MessageDigest.getInstance("SHA-256")
              .digest(("lakeward " + text).getBytes(StandardCharsets.UTF_8));
      return HexFormat.of().formatHex(digest).substring(0, MACHINE_ID_DIGITS);
    } catch (NoSuchAlgorithmException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  private static String machineId() {
    for (Path file : MACHINE_ID_FILES) {
      try {
        String text = Files.readString(file, StandardCharsets.US_ASCII).strip();
        if (!text.isEmpty()) {
          return hashedMachineId(text);
        }
      } catch (IOException missing) {
        // The next file is tried.
      }
    }
    return "unknown";
  }

  /** The host as an IP address; empty for another name. Never asks a name server. */
  private Optional<InetAddress> ip() {
    String connected = connectedHost();
    boolean isIpv6 = connected.contains(":");
    if (!isIpv6 && !IPV4.matcher(connected).matches()) {
      return Optional.empty();
    }
    try {
      return Optional.of(InetAddress.getByName(isIpv6 ? "[" + connected + "]" : connected));
    } catch (UnknownHostException malformed) {
      return Optional.empty();
    }
  }

  /** An unspecified address is the loopback of its kind, where a connection to it arrives. */
  private static String spelled(InetAddress ip) {
    byte[] bytes = ip.getAddress();
    if (bytes.length == 4) {
      return ip.isAnyLocalAddress() ? LOCALHOST : ip.getHostAddress();
    }
    return ip.isAnyLocalAddress() ? "0-0-0-0-0-0-0-1" : ip.getHostAddress().replace(':', '-');
  }
}
