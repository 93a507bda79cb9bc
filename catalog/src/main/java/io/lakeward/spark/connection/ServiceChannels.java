package io.lakeward.spark.connection;

import io.grpc.ChannelCredentials;
import io.grpc.ClientInterceptor;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.TlsChannelCredentials;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.netty.channel.ChannelOption;
import io.lakeward.spark.error.LakewardException;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.TimeUnit;

/**
 * Keeps one channel per service and credentials for the whole JVM: every session of a Thrift or
 * Connect server has its own catalog, and Spark never closes one. The channel's threads are
 * daemons, so they do not keep the JVM alive.
 */
public final class ServiceChannels {

  private static final ConcurrentMap<Key, ManagedChannel> CHANNELS = new ConcurrentHashMap<>();

  /**
   * The same values as in tiering/wire/channel.py: a dead peer is noticed within 40 s, below the
   * idle time-outs of usual proxies.
   */
  private static final long KEEP_ALIVE_SECONDS = 30;

  private static final long KEEP_ALIVE_TIMEOUT_SECONDS = 10;

  /** A machine that does not answer at all leaves time for the next address. */
  private static final int CONNECT_TIMEOUT_MILLIS = 5_000;

  private static final int MAX_MESSAGE_BYTES = 4 << 20;
  private static final int MAX_METADATA_BYTES = 8 << 10;

  private record Key(String target, ClientAccess access) {}

  private ServiceChannels() {}

  /**
   * The channel to {@code host:port}, or to several with commas between them. Throws
   * LakewardException for a file that is not PEM.
   */
  public static ManagedChannel get(String target, ClientAccess access) throws LakewardException {
    Key key = new Key(target, access);
    ManagedChannel opened = CHANNELS.get(key);
    if (opened != null) {
      return opened;
    }
    ChannelCredentials credentials = credentials(access);
    return CHANNELS.computeIfAbsent(key, missing -> open(missing, credentials));
  }

  private static ManagedChannel open(Key key, ChannelCredentials credentials) {
    List<ClientInterceptor> token =
        key.access().tokenPath(key.target(), System.getenv()).stream()
            .<ClientInterceptor>map(TokenHeader::new)
            .toList();
    return NettyChannelBuilder.forTarget(target(key.target()), credentials)
        .intercept(token)
        .withOption(ChannelOption.CONNECT_TIMEOUT_MILLIS, CONNECT_TIMEOUT_MILLIS)
        .disableServiceConfigLookUp()
        // Messages are only handed to the blocking call that waits: no other thread is needed.
        .directExecutor()
        .proxyDetector(address -> null)
        // Both are gRPC's defaults, written down: the limits of one message.
        .maxInboundMessageSize(MAX_MESSAGE_BYTES)
        .maxInboundMetadataSize(MAX_METADATA_BYTES)
        .keepAliveTime(KEEP_ALIVE_SECONDS, TimeUnit.SECONDS)
        .keepAliveTimeout(KEEP_ALIVE_TIMEOUT_SECONDS, TimeUnit.SECONDS)
        .build();
  }

  private static String target(String addresses) {
    if (addresses.contains(",") || ServiceAddress.of(addresses).isLocalhost()) {
      return AddressList.target(addresses);
    }
    // An address in brackets is not a valid path of a URI. A bare name could be read as a scheme.
    return addresses.startsWith("[") ? addresses : "dns:///" + addresses;
  }

  private static ChannelCredentials credentials(ClientAccess access) throws LakewardException {
    if (!access.isEncrypted()) {
      return InsecureChannelCredentials.create();
    }
    try {
      TlsChannelCredentials.Builder tls = TlsChannelCredentials.newBuilder();
      if (access.tlsCa().isPresent()) {
        tls.trustManager(access.tlsCa().get().toFile());
      }
      if (access.tlsCert().isPresent()) {
        tls.keyManager(access.tlsCert().get().toFile(), access.tlsKey().get().toFile());
      }
      return tls.build();
    } catch (IOException | IllegalArgumentException unreadable) {
      throw new LakewardException(
          "the files of TLS (tls.ca, tls.cert, tls.key) cannot be used: " + unreadable.getMessage(),
          unreadable);
    }
  }
}
