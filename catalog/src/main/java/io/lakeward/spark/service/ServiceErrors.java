package io.lakeward.spark.service;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.ErrorInfo;
import com.google.rpc.Help;
import com.google.rpc.LocalizedMessage;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import io.lakeward.rpc.v1.CallProcedureRequest;
import io.lakeward.spark.connection.ClientAccess;
import io.lakeward.spark.connection.TlsProblems;
import io.lakeward.spark.error.LakewardException.Missing;
import io.lakeward.spark.error.LakewardException;
import java.time.Duration;
import java.util.Optional;

/**
 * Translates failed calls to errors for the user. An error of the service itself is in the details
 * of a {@code google.rpc.Status} (tiering/wire/error_status.py), and is shown unchanged.
 */
final class ServiceErrors {

  /** Domain of the ErrorInfo of each error of the service. */
  private static final String DOMAIN = "lakeward";

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
   * Whether no service answered, so that the same call may be sent again. A standby without a
   * leader answers with an error of its own, which counts as no answer.
   */
  static boolean isUnreachable(StatusRuntimeException error) {
    return error.getStatus().getCode() == Status.Code.UNAVAILABLE
        && sentError(error).map(sent -> sent.errorClass().equals(NO_LEADER)).orElse(true);
  }

  /**
   * Whether a service that did not answer may do so in a moment. After a failed TLS handshake it
   * will not.
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
        "whether CALL sys.%s took effect is unknown: %s"
            .formatted(request.getName(), text(error));
    String repeat =
        request.hasIdempotencyKey()
            ? " To learn it without doing it twice, repeat the CALL with idempotency_key => '%s'."
                .formatted(request.getIdempotencyKey())
            : "";
    return new LakewardException(unknown + repeat, error);
  }

  /** The error for a statement that defines a table whose service went away. */
  LakewardException lostStatement(String statement, StatusRuntimeException error) {
    return new LakewardException(
        "whether the %s took effect is unknown: %s Look at the table before you repeat it."
            .formatted(statement, text(error)),
        error);
  }

  private String text(StatusRuntimeException error) {
    return sentError(error).map(SentError::text).orElseGet(() -> text(error.getStatus()));
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

  /** The error of the service in the details of a failed call; empty if another service sent it. */
  private static Optional<SentError> sentError(StatusRuntimeException error) {
    try {
      com.google.rpc.Status status = StatusProto.fromThrowable(error);
      return status == null ? Optional.empty() : SentError.of(status);
    } catch (IllegalArgumentException | InvalidProtocolBufferException unreadable) {
      return Optional.empty();
    }
  }

  private record SentError(String errorClass, String message, String hint) {

    static Optional<SentError> of(com.google.rpc.Status status)
        throws InvalidProtocolBufferException {
      ErrorInfo info = ErrorInfo.getDefaultInstance();
      String message = status.getMessage();
      String hint = "";
      for (Any detail : status.getDetailsList()) {
        if (detail.is(ErrorInfo.class)) {
          info = detail.unpack(ErrorInfo.class);
        } else if (detail.is(LocalizedMessage.class)) {
          message = detail.unpack(LocalizedMessage.class).getMessage();
        } else if (detail.is(Help.class)) {
          hint = detail.unpack(Help.class).getLinks(0).getDescription();
        }
      }
      return info.getDomain().equals(DOMAIN)
          ? Optional.of(new SentError(info.getReason(), message, hint))
          : Optional.empty();
    }

    String text() {
      String text = "[" + errorClass + "] " + message;
      if (hint.isEmpty()) {
        return text;
      }
      return text + (endsSentence(text) ? " " : ". ") + "Hint: " + hint;
    }

    private static boolean endsSentence(String text) {
      return text.endsWith(".") || text.endsWith("!") || text.endsWith("?");
    }
  }
}
