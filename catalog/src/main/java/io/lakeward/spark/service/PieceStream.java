package io.lakeward.spark.service;

import com.google.protobuf.ByteString;
import java.io.InputStream;
import java.util.Iterator;
import java.util.function.Function;

/**
 * The bytes of a stream of messages as one input stream. Exceptions of the iterator pass through.
 */
final class PieceStream<T> extends InputStream {

  private final Iterator<T> messages;
  private final Function<T, ByteString> piece;
  private ByteString current = ByteString.EMPTY;
  private int position;

  PieceStream(Iterator<T> messages, Function<T, ByteString> piece) {
    this.messages = messages;
    this.piece = piece;
  }

  @Override
  public int read() {
    return advance() ? current.byteAt(position++) & 0xFF : -1;
  }

  @Override
  public int read(byte[] target, int offset, int length) {
    if (length == 0) {
      return 0;
    }
    if (!advance()) {
      return -1;
    }
    int count = Math.min(length, current.size() - position);
    current.copyTo(target, position, offset, count);
    position += count;
    return count;
  }

  /** Moves to the next byte; false at the end. */
  private boolean advance() {
    while (position == current.size()) {
      if (!messages.hasNext()) {
        return false;
      }
      current = piece.apply(messages.next());
      position = 0;
    }
    return true;
  }
}
