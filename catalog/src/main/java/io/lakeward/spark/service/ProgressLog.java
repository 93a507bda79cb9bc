package io.lakeward.spark.service;

import org.slf4j.Logger;

/** Logs the progress of a CALL: a bounded number of lines, each of bounded length. */
final class ProgressLog {

  /** A CALL reports when something changes, and every 15 s: fewer lines in a day. */
  static final int MAX_LINES = 10_000;

  static final int MAX_CHARACTERS = 2_048;

  private final Logger log;
  private final String procedure;
  private int lines;

  ProgressLog(Logger log, String procedure) {
    this.log = log;
    this.procedure = procedure;
  }

  void add(String message) {
    lines++;
    if (lines <= MAX_LINES) {
      log.info("CALL {}: {}", procedure, cut(message));
    } else if (lines == MAX_LINES + 1) {
      log.warn(
          "CALL {}: more than {} lines of progress; none is logged any more", procedure, MAX_LINES);
    }
  }

  static String cut(String message) {
    return message.length() <= MAX_CHARACTERS
        ? message
        : message.substring(0, MAX_CHARACTERS) + "...";
  }
}
