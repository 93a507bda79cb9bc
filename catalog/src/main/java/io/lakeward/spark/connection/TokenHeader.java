package io.lakeward.spark.connection;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;

/**
 * Puts the token of a file into the headers of each call. The file is looked at with each: a token
 * that is replaced needs no new session. Without a file no token is sent, and the service says
 * whether it needs one.
 */
final class TokenHeader implements ClientInterceptor {

  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  private final Path file;
  private volatile Known known = new Known("", null);

  private record Known(String version, String token) {}

  TokenHeader(Path file) {
    this.file = file;
  }

  @Override
  public <Q, A> ClientCall<Q, A> interceptCall(
      MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
    return new SimpleForwardingClientCall<>(next.newCall(method, options)) {
      @Override
      public void start(Listener<A> listener, Metadata headers) {
        String token = token();
        if (token != null) {
          headers.put(AUTHORIZATION, "Bearer " + token);
        }
        super.start(listener, headers);
      }
    };
  }

  /** The token as the file has it now; null without one. */
  String token() {
    try {
      BasicFileAttributes status = Files.readAttributes(file, BasicFileAttributes.class);
      String version = status.fileKey() + " " + status.lastModifiedTime() + " " + status.size();
      if (!version.equals(known.version())) {
        String text = Files.readString(file, StandardCharsets.US_ASCII).strip();
        known = new Known(version, text.chars().allMatch(c -> c > ' ' && c < 127) ? text : null);
      }
      String token = known.token();
      return token == null || token.isEmpty() ? null : token;
    } catch (IOException missing) {
      return null;
    }
  }
}
