package io.lakeward.spark.connection;

import io.grpc.Status;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.Optional;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.SSLSocketFactory;

/** Explains failed connections with or without TLS, in the words of tls_errors.py. */
public final class TlsProblems {

  /** Time limit of a handshake that only explains an error. */
  private static final int PROBE_MILLIS = 1_000;

  private TlsProblems() {}

  /** The explanation for a call that no service answered; empty if TLS was not the reason. */
  public static Optional<String> of(
      Status status, String option, String target, ClientAccess access) {
    for (Throwable cause = status.getCause(); cause != null; cause = cause.getCause()) {
      String text = cause.getClass().getSimpleName() + " " + cause.getMessage();
      Optional<String> problem = of(text, option);
      if (problem.isPresent()) {
        return problem;
      }
    }
    boolean isClosed = String.valueOf(status.getDescription()).contains("Network closed");
    return isClosed
            && !access.isEncrypted()
            && AddressList.split(target).stream().anyMatch(TlsProblems::speaksTls)
        ? Optional.of("it speaks TLS, and this Spark does not; set " + option + "tls.ca")
        : Optional.empty();
  }

  /**
   * Whether the peer answers a TLS handshake. Its certificate does not matter, because nothing is
   * sent.
   */
  private static boolean speaksTls(String address) {
    ServiceAddress parts = ServiceAddress.of(address);
    String host = parts.connectedHost();
    int port = parts.port();
    try (Socket plain = new Socket()) {
      plain.connect(new InetSocketAddress(host, port), PROBE_MILLIS);
      plain.setSoTimeout(PROBE_MILLIS);
      SSLSocketFactory factory = (SSLSocketFactory) SSLSocketFactory.getDefault();
      try (SSLSocket socket = (SSLSocket) factory.createSocket(plain, host, port, true)) {
        socket.startHandshake();
        return true;
      }
    } catch (SSLException refused) {
      return !String.valueOf(refused.getMessage()).contains("unrecognized SSL message");
    } catch (IOException unreachable) {
      return false;
    }
  }

  private static Optional<String> of(String text, String option) {
    if (text.contains("CertificateExpired")) {
      return Optional.of("its certificate has expired; have it renewed");
    }
    if (text.contains("CertificateNotYetValid")) {
      return Optional.of("its certificate is not valid yet; compare the clocks of both machines");
    }
    if (text.contains("No subject alternative") || text.contains("No name matching")) {
      return Optional.of(
          "its certificate has another name; use one of its names in " + option + "uri");
    }
    if (text.contains("unable to find valid certification path")) {
      return Optional.of(
          "this Spark does not trust the issuer of its certificate; name the issuer with "
              + option
              + "tls.ca");
    }
    if (text.contains("not an SSL/TLS record")) {
      return Optional.of(
          "it does not speak TLS; remove " + option + "tls.ca, or start it with --server-cert");
    }
    if (text.contains("certificate_required")
        || text.contains("bad_certificate")
        || text.contains("unknown_ca")) {
      return Optional.of(
          "it refuses the certificate of this Spark; set "
              + option
              + "tls.cert and tls.key to one that an issuer in its --client-ca signed");
    }
    return Optional.empty();
  }
}
