package io.lakeward.spark;

import com.google.protobuf.InvalidProtocolBufferException;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.lakeward.rpc.v1.PbError;
import io.lakeward.spark.LakewardException.Missing;
import io.lakeward.sys.rpc.v1.CallProcedureRequest;
import java.time.Duration;
import java.util.Optional;

/**
 * Failed calls as errors for the user. What the service itself reports travels as a {@code PbError}
 * in the trailing metadata (tiering/rpc_errors.py): then the service did answer, and its words are
 * shown.
 */
final class ServiceErrors {

  private static final Metadata.Key<byte[]> DETAILS =
      Metadata.Key.of("lakeward-error-bin", Metadata.BINARY_BYTE_MARSHALLER);

  private final String catalog;
  private final String target;
  private final Duration timeout;

  ServiceErrors(String catalog, CatalogOptions options) {
    this.catalog = catalog;
    this.target = options.target();
    this.timeout = options.timeout();
  }

  /** Whether nobody answered, so that the same call may be sent again. */
  static boolean isUnreachable(StatusRuntimeException error) {
    return error.getStatus().getCode() == Status.Code.UNAVAILABLE && details(error).isEmpty();
  }

  /** The error to show for a failed call. */
  LakewardException translate(StatusRuntimeException error) {
    return new LakewardException(words(error), error);
  }

  /** The same for a call that looked up the table {@code name}. */
  LakewardException translate(StatusRuntimeException error, String name) {
    return error.getStatus().getCode() == Status.Code.NOT_FOUND
        ? LakewardException.unknown(Missing.TABLE_OR_VIEW_NOT_FOUND, name, words(error))
        : translate(error);
  }

  /** The error for a CALL whose service went away and did not come back. */
  LakewardException lostCall(CallProcedureRequest request, StatusRuntimeException error) {
    String repeat =
        request.hasIdempotencyKey()
            ? " To learn it without doing it twice, repeat the CALL with idempotency_key => '"
                + request.getIdempotencyKey()
                + "'."
            : "";
    return new LakewardException(
        "whether CALL "
            + request.getNamespace()
            + "."
            + request.getName()
            + " took effect is unknown: "
            + words(error)
            + repeat,
        error);
  }

  private String words(StatusRuntimeException error) {
    return details(error).map(ServiceErrors::words).orElseGet(() -> words(error.getStatus()));
  }

  private static String words(PbError error) {
    String hint = error.getHint().isEmpty() ? "" : " Hint: " + error.getHint();
    return "["
        + error.getErrorClass()
        + "] "
        + error.getMessage()
        + sentenceEnd(error.getMessage(), hint)
        + hint;
  }

  private static String sentenceEnd(String message, String hint) {
    return hint.isEmpty() || message.matches("(?s).*[.!?]") ? "" : ".";
  }

  private String words(Status status) {
    return switch (status.getCode()) {
      case UNAVAILABLE ->
          "no Lakeward service answers at "
              + target
              + " ("
              + reason(status)
              + "). Start one there with `lakeward up` or `lakeward coordinator`, or correct"
              + " spark.sql.catalog."
              + catalog
              + ".uri.";
      case DEADLINE_EXCEEDED ->
          "the Lakeward service at "
              + target
              + " did not answer within "
              + timeout.toMillis()
              + " ms. Try again, or raise spark.sql.catalog."
              + catalog
              + ".timeout.";
      case UNIMPLEMENTED ->
          "what answers at "
              + target
              + " is no Lakeward service, or one that is older than this plugin ("
              + reason(status)
              + "). Check spark.sql.catalog."
              + catalog
              + ".uri.";
      case CANCELLED -> "the statement was cancelled";
      default ->
          "the Lakeward service at "
              + target
              + " failed ("
              + status.getCode()
              + ": "
              + reason(status)
              + ")";
    };
  }

  private static String reason(Status status) {
    Throwable cause = status.getCause();
    if (cause != null && cause.getMessage() != null) {
      return cause.getMessage();
    }
    return String.valueOf(status.getDescription());
  }

  private static Optional<PbError> details(StatusRuntimeException error) {
    byte[] bytes = error.getTrailers() == null ? null : error.getTrailers().get(DETAILS);
    try {
      return bytes == null ? Optional.empty() : Optional.of(PbError.parseFrom(bytes));
    } catch (InvalidProtocolBufferException unreadable) {
      return Optional.empty();
    }
  }
}
