package io.lakeward.spark.service;

import com.google.protobuf.ByteString;
import io.lakeward.rpc.v1.PlanReadResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * How the rows of one scan are read: by tasks, or not at all because their number is the answer.
 *
 * @param tasks the work of each task, which Lakeward's Python package executes
 * @param rowCount the exact number of rows, if it was requested and the service has it
 * @param ticket the ticket to use from now on; empty = the same
 */
public record ScanPlan(
    List<ByteString> tasks, OptionalLong rowCount, Optional<ByteString> ticket) {

  /** Joins the messages of an answer. A large task is divided over several messages. */
  static final class Joiner {
    private final List<ByteString> tasks = new ArrayList<>();
    private ByteString begun = ByteString.EMPTY;
    private OptionalLong rowCount = OptionalLong.empty();
    private Optional<ByteString> ticket = Optional.empty();

    void add(PlanReadResponse piece) {
      for (int i = 0; i < piece.getTasksCount(); i++) {
        begun = begun.concat(piece.getTasks(i));
        if (i < piece.getTasksCount() - 1 || !piece.getLastTaskContinues()) {
          tasks.add(begun);
          begun = ByteString.EMPTY;
        }
      }
      if (piece.hasRowCount()) {
        rowCount = OptionalLong.of(piece.getRowCount());
      }
      if (piece.hasTicket()) {
        ticket = Optional.of(piece.getTicket());
      }
    }

    /** The plan of all messages that were added. */
    ScanPlan joined() {
      return new ScanPlan(List.copyOf(tasks), rowCount, ticket);
    }
  }
}
