package io.lakeward.spark.service;

import com.google.protobuf.InvalidProtocolBufferException;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.lakeward.rpc.v1.PbError;
import io.lakeward.spark.connection.ClientAccess;
import io.lakeward.spark.connection.TlsProblems;
import io.lakeward.spark.error.LakewardException;
import io.lakeward.spark.error.LakewardException.Missing;
import io.lakeward.sys.rpc.v1.CallProcedureRequest;
import java.time.Duration;
import java.util.Optional;

/**
 * Translates failed calls to errors for the user. Errors of the service itself travel as a {@code
 * PbError} in the trailing metadata (tiering/wire/error_status.py) and are shown as they are.
 */
final class ServiceErrors {

  private static final Metadata.Key<byte[]> DETAILS =
      Metadata.Key.of("lakeward-error-bin", Metadata.BINARY_BYTE_MARSHALLER);

  /** The error class of a standby without a leader (tiering/cli/processes/forwarding.py). */
  private static final String NO_LEADER = "ServiceUnreachable";

  private final String catalog;
  private final String target;
  private final Duration timeout;
  private final ClientAccess access;

  ServiceErrors(String catalog, CatalogOptions options) {
    this.catalog = catalog;
    this.target = options.target();
    this.timeout = options.timeout();
    this.access = options.access();
  }

  /**
   * Whether no service answered, so that the same call may be sent again. A standby answers, and
   * says so itself while none leads.
   */
  static boolean isUnreachable(StatusRuntimeException error) {
    return error.getStatus().getCode() == Status.Code.UNAVAILABLE
        && details(error).map(details -> details.getErrorClass().equals(NO_LEADER)).orElse(true);
  }

  /**
   * Whether a service that did not answer may do so in a moment. A service without a secure
   * connection will not.
   */
  boolean mayComeBack(StatusRuntimeException error) {
    return isUnreachable(error) && TlsProblems.of(error.getStatus(), "", target, access).isEmpty();
  }

  /** The error to show for a failed call. */
  LakewardException translate(StatusRuntimeException error) {
    return new LakewardException(text(error), error);
  }

  /** The error to show for a failed call that looked up the table {@code name}. */
  LakewardException translate(StatusRuntimeException error, String name) {
    return error.getStatus().getCode() == Status.Code.NOT_FOUND
        ? LakewardException.unknown(Missing.TABLE_OR_VIEW_NOT_FOUND, name, text(error))
        : translate(error);
  }

  /** The error for a CALL whose service went away and did not come back. */
  LakewardException lostCall(CallProcedureRequest request, StatusRuntimeException error) {
    String unknown =
        "whether CALL %s.%s took effect is unknown: %s"
            .formatted(request.getNamespace(), request.getName(), text(error));
    String repeat =
        request.hasIdempotencyKey()
            ? " To learn it without doing it twice, repeat the CALL with idempotency_key => '%s'."
                .formatted(request.getIdempotencyKey())
            : "";
    return new LakewardException(unknown + repeat, error);
  }

  private String text(StatusRuntimeException error) {
    return details(error).map(ServiceErrors::text).orElseGet(() -> text(error.getStatus()));
  }

  private static String text(PbError error) {
    String message = "[" + error.getErrorClass() + "] " + error.getMessage();
    if (error.getHint().isEmpty()) {
      return message;
    }
    return message + (endsSentence(message) ? " " : ". ") + "Hint: " + error.getHint();
  }

  private static boolean endsSentence(String message) {
    return message.endsWith(".") || message.endsWith("!") || message.endsWith("?");
  }

  private String text(Status status) {
    String option = "spark.sql.catalog." + catalog + ".";
    return switch (status.getCode()) {
      case UNAVAILABLE -> unavailable(status, option);
      case DEADLINE_EXCEEDED ->
          "the Lakeward service at %s did not answer within %d ms. Try again, or raise %stimeout."
              .formatted(target, timeout.toMillis(), option);
      case UNIMPLEMENTED ->
          ("the server at %s is not a Lakeward service, or is older than this plugin (%s)."
                  + " Check %suri.")
              .formatted(target, reason(status), option);
      case CANCELLED -> "the statement was cancelled";
      default ->
          "the Lakeward service at %s failed (%s: %s)"
              .formatted(target, status.getCode(), reason(status));
    };
  }

  private String unavailable(Status status, String option) {
    return TlsProblems.of(status, option, target, access)
        .map(problem -> "no safe connection to the service at " + target + ": " + problem + ".")
        .orElseGet(
            () ->
                ("no Lakeward service answers at %s (%s). Start one there with `lakeward up` or"
                        + " `lakeward coordinator`, or correct %suri.")
                    .formatted(target, reason(status), option));
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
