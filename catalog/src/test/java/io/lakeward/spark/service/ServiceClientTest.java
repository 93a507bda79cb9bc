package io.lakeward.spark.service;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.StreamObserver;
import io.lakeward.spark.error.LakewardException;
import io.lakeward.sys.rpc.v1.DescribeRequest;
import io.lakeward.sys.rpc.v1.DescribeResponse;
import io.lakeward.sys.rpc.v1.SysCatalogGrpc;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** The client with real services on this machine. */
class ServiceClientTest {

  private static final Metadata.Key<byte[]> USER =
      Metadata.Key.of("lakeward-user-bin", Metadata.BINARY_BYTE_MARSHALLER);

  private final List<Server> servers = new ArrayList<>();
  private final List<String> users = Collections.synchronizedList(new ArrayList<>());

  /** Answers Describe with its name, and notes for whom each call is made. */
  private Server service(String name, int port) throws IOException {
    SysCatalogGrpc.SysCatalogImplBase catalog =
        new SysCatalogGrpc.SysCatalogImplBase() {
          @Override
          public void describe(DescribeRequest request, StreamObserver<DescribeResponse> answer) {
            answer.onNext(DescribeResponse.newBuilder().addNamespaces(name).build());
            answer.onCompleted();
          }
        };
    ServerInterceptor noting =
        new ServerInterceptor() {
          @Override
          public <Q, A> ServerCall.Listener<Q> interceptCall(
              ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
            byte[] user = headers.get(USER);
            users.add(user == null ? null : new String(user, StandardCharsets.UTF_8));
            return next.startCall(call, headers);
          }
        };
    InetSocketAddress address = new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
    Server server =
        NettyServerBuilder.forAddress(address)
            .addService(catalog)
            .intercept(noting)
            .build()
            .start();
    servers.add(server);
    return server;
  }

  @AfterEach
  void stop() throws InterruptedException {
    for (Server server : servers) {
      server.shutdownNow().awaitTermination();
    }
  }

  private static ServiceClient client(String uri) throws LakewardException {
    return new ServiceClient("fluss", options(uri));
  }

  private static int freePort() throws IOException {
    try (ServerSocket held = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return held.getLocalPort();
    }
  }

  private static String answering(ServiceClient client) throws LakewardException {
    return client.describe("ann").getNamespaces(0);
  }

  @Test
  void eachCallNamesTheUserForWhomItIsMade() throws Exception {
    ServiceClient client = client("127.0.0.1:" + service("only", 0).getPort());
    client.describe("ann");
    client.describe("Zoë, of 東京");
    client.describe("");
    assertEquals(List.of("ann", "Zoë, of 東京"), users.subList(0, 2));
    assertEquals(Collections.singletonList(null), users.subList(2, 3));
  }

  @Test
  void theFirstAddressIsUsedAndAnotherWhenItIsGone() throws Exception {
    int port = freePort();
    Server first = service("first", port);
    Server second = service("second", 0);
    ServiceClient client =
        client("127.0.0.1:%d,localhost:%d".formatted(port, second.getPort()));
    assertEquals("first", answering(client));
    first.shutdownNow().awaitTermination();
    assertEquals("second", answering(client));
    assertEquals("second", answering(client));
    service("first again", port);
    second.shutdownNow().awaitTermination();
    assertEquals("first again", answering(client));
  }

  @Test
  void addressesAtWhichNobodyAnswersArePassedOver() throws Exception {
    int free = freePort();
    Server running = service("running", 0);
    String uri =
        "127.0.0.1:%d,[::1]:%d,no-such-host.invalid:1,127.0.0.1:%d"
            .formatted(free, free, running.getPort());
    assertEquals("running", answering(client(uri)));
  }

  @Test
  void anErrorNamesAllAddresses() throws Exception {
    int free = freePort();
    String uri = "127.0.0.1:%d,localhost:%d".formatted(free, free);
    CatalogOptions options = options(uri);
    ServiceClient client = new ServiceClient("fluss", options, Duration.ofMillis(1));
    LakewardException error = assertThrows(LakewardException.class, () -> answering(client));
    assertTrue(error.getMessage().contains("answers at " + uri), error.getMessage());
  }

  private static CatalogOptions options(String uri) throws LakewardException {
    return CatalogOptions.parse("fluss", Map.of("uri", uri), Map.of("uri", uri));
  }
}
