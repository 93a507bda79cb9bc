package io.lakeward.spark.service;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.protobuf.ByteString;
import com.google.rpc.ErrorInfo;
import com.google.rpc.Help;
import com.google.rpc.LocalizedMessage;
import com.google.rpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import io.lakeward.spark.error.LakewardException;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** The user's error for the status with which the service ends a call. */
class ServiceErrorsTest {

  private static final int UNAVAILABLE = io.grpc.Status.Code.UNAVAILABLE.value();
  private static final int NOT_FOUND = io.grpc.Status.Code.NOT_FOUND.value();

  private static StatusRuntimeException failure(int code, String errorClass, String domain) {
    Help.Link hint = Help.Link.newBuilder().setDescription("Check the name.").build();
    return StatusProto.toStatusRuntimeException(
        Status.newBuilder()
            .setCode(code)
            .setMessage("cut…")
            .addDetails(
                Any.pack(ErrorInfo.newBuilder().setReason(errorClass).setDomain(domain).build()))
            .addDetails(
                Any.pack(LocalizedMessage.newBuilder().setMessage("there is no table t").build()))
            .addDetails(Any.pack(Help.newBuilder().addLinks(hint).build()))
            .build());
  }

  private static String shown(StatusRuntimeException error) throws LakewardException {
    Map<String, String> uri = Map.of("uri", "127.0.0.1:1");
    CatalogOptions options = CatalogOptions.parse("fluss", uri, uri);
    return new ServiceErrors("fluss", options).translate(error).getMessage();
  }

  @Test
  void anErrorOfTheServiceIsShownWithClassMessageAndHint() throws Exception {
    assertEquals(
        "[UnknownTable] there is no table t. Hint: Check the name.",
        shown(failure(NOT_FOUND, "UnknownTable", "lakeward")));
  }

  @Test
  void anErrorOfAnotherServiceIsShownByItsStatus() throws Exception {
    assertTrue(shown(failure(NOT_FOUND, "UnknownTable", "example.com")).contains("NOT_FOUND: cut…"));
  }

  @Test
  void detailsThatCannotBeReadAreLeftOut() throws Exception {
    Any broken =
        Any.newBuilder()
            .setTypeUrl("type.googleapis.com/google.rpc.ErrorInfo")
            .setValue(ByteString.copyFromUtf8("\377"))
            .build();
    Status status = Status.newBuilder().setCode(NOT_FOUND).addDetails(broken).build();
    assertTrue(shown(StatusProto.toStatusRuntimeException(status)).contains("NOT_FOUND"));
  }

  @Test
  void onlyAServiceThatNamesAnotherErrorWasReached() {
    assertTrue(
        ServiceErrors.isUnreachable(failure(UNAVAILABLE, "ServiceUnreachable", "lakeward")));
    assertFalse(ServiceErrors.isUnreachable(failure(UNAVAILABLE, "StoreError", "lakeward")));
    assertTrue(ServiceErrors.isUnreachable(io.grpc.Status.UNAVAILABLE.asRuntimeException()));
  }
}
