package io.lakeward.spark.fresh;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.protobuf.ByteString;
import io.grpc.Server;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.StreamObserver;
import io.lakeward.rpc.v1.CloseReadRequest;
import io.lakeward.rpc.v1.CloseReadResponse;
import io.lakeward.rpc.v1.OpenReadResponse;
import io.lakeward.rpc.v1.PlanReadRequest;
import io.lakeward.rpc.v1.PlanReadResponse;
import io.lakeward.rpc.v1.ReadScan;
import io.lakeward.rpc.v1.RenewReadRequest;
import io.lakeward.rpc.v1.RenewReadResponse;
import io.lakeward.rpc.v1.TableReadsGrpc;
import io.lakeward.spark.service.CatalogOptions;
import io.lakeward.spark.service.ServiceClient;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** A read at a service on this machine, which adds a letter to the ticket in each call. */
class OpenedReadTest {

  private static final ReadScan ROWS = scan(ReadScan.Part.ROWS);
  private static final ReadScan CHANGELOG = scan(ReadScan.Part.CHANGELOG);

  private final List<String> tickets = Collections.synchronizedList(new ArrayList<>());
  private final CountDownLatch renewalBegan = new CountDownLatch(1);
  private final CountDownLatch renewalMayEnd = new CountDownLatch(1);
  private Server server;
  private OpenedRead read;

  private static ReadScan scan(ReadScan.Part part) {
    return ReadScan.newBuilder().setPart(part).build();
  }

  private static ByteString with(ByteString ticket, String letter) {
    return ticket.concat(ByteString.copyFromUtf8(letter));
  }

  private final class Reads extends TableReadsGrpc.TableReadsImplBase {
    @Override
    public void planRead(PlanReadRequest request, StreamObserver<PlanReadResponse> answer) {
      tickets.add(request.getTicket().toStringUtf8());
      if (request.getScan().getPart() == ReadScan.Part.CHANGELOG) {
        ByteString ticket = with(request.getTicket(), "c");
        answer.onNext(PlanReadResponse.newBuilder().setTicket(ticket).build());
        renewalMayEnd.countDown();
      }
      answer.onNext(PlanReadResponse.newBuilder().addTasks(ByteString.copyFromUtf8("task")).build());
      answer.onCompleted();
    }

    @Override
    public void renewRead(RenewReadRequest request, StreamObserver<RenewReadResponse> answer) {
      renewalBegan.countDown();
      try {
        renewalMayEnd.await();
      } catch (InterruptedException stopped) {
        return;
      }
      answer.onNext(
          RenewReadResponse.newBuilder().setTicket(with(request.getTicket(), "r")).build());
      answer.onCompleted();
    }

    @Override
    public void closeRead(CloseReadRequest request, StreamObserver<CloseReadResponse> answer) {
      tickets.add(request.getTicket().toStringUtf8());
      answer.onNext(CloseReadResponse.getDefaultInstance());
      answer.onCompleted();
    }
  }

  @BeforeEach
  void open() throws Exception {
    InetSocketAddress address = new InetSocketAddress(InetAddress.getLoopbackAddress(), 0);
    server = NettyServerBuilder.forAddress(address).addService(new Reads()).build().start();
    String uri = "127.0.0.1:" + server.getPort();
    ServiceClient client =
        new ServiceClient(
            "fluss", CatalogOptions.parse("fluss", Map.of("uri", uri), Map.of("uri", uri)));
    ByteString ticket = ByteString.copyFromUtf8("o");
    read =
        new OpenedRead(
            client, "ann", "sales.orders", OpenReadResponse.newBuilder().setTicket(ticket).build());
  }

  @AfterEach
  void stop() throws InterruptedException {
    server.shutdownNow().awaitTermination();
  }

  @Test
  void theTicketOfAScanOfTheChangelogIsUsedFromThenOn() throws Exception {
    assertEquals(1, read.tasks(ROWS).size());
    assertEquals(1, read.tasks(CHANGELOG).size());
    read.tasks(ROWS);
    read.ticket().renew();
    read.rowCount(CHANGELOG);
    read.ticket().close();
    assertEquals(List.of("o", "o", "oc", "ocr", "ocrc"), tickets);
  }

  @Test
  void aRenewalThatBeganBeforeAScanDoesNotUndoItsTicket() throws Exception {
    Thread renewal = new Thread(read.ticket()::renew);
    renewal.start();
    renewalBegan.await();
    read.tasks(CHANGELOG);
    renewal.join();
    read.ticket().close();
    assertEquals(List.of("o", "oc"), tickets);
  }
}
