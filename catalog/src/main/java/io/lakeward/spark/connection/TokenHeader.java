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
 * Puts the token of a file into the headers of each call. Each call checks whether the file has
 * changed, so a new token needs no new session. Without a file no token is sent, and the service
 * refuses the call if it needs one.
 */
final class TokenHeader implements ClientInterceptor {

  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  private final Path file;
  private volatile CachedToken cached = new CachedToken("", null);

  private record CachedToken(String version, String token) {}

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

  /** The token that the file has now; null without one. */
  String token() {
    try {
      BasicFileAttributes status = Files.readAttributes(file, BasicFileAttributes.class);
      String version = status.fileKey() + " " + status.lastModifiedTime() + " " + status.size();
      if (!version.equals(cached.version())) {
        String text = Files.readString(file, StandardCharsets.US_ASCII).strip();
        boolean isToken = text.chars().allMatch(c -> c > ' ' && c < 127);
        cached = new CachedToken(version, isToken ? text : null);
      }
      String token = cached.token();
      return token == null || token.isEmpty() ? null : token;
    } catch (IOException missing) {
      return null;
    }
  }
}
