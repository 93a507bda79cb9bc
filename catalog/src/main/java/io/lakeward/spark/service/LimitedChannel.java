package io.lakeward.spark.service;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.Channels;
import org.apache.arrow.vector.ipc.ReadChannel;

/**
 * An Arrow stream that refuses messages whose declared metadata is too large. Arrow allocates the
 * declared size before it reads.
 */
final class LimitedChannel extends ReadChannel {

  /** A schema of ten thousand columns with comments is smaller. */
  static final int MAX_METADATA_BYTES = 8 << 20;

  /** Marker before a length (Arrow columnar format, "Encapsulated message"). */
  private static final int CONTINUATION = -1;

  LimitedChannel(InputStream stream) {
    super(Channels.newChannel(stream));
  }

  /** Arrow reads each length of metadata as four bytes of their own. */
  @Override
  public int readFully(ByteBuffer target) throws IOException {
    int count = super.readFully(target);
    if (count == Integer.BYTES && target.capacity() == Integer.BYTES) {
      int length = target.duplicate().order(ByteOrder.LITTLE_ENDIAN).getInt(0);
      if (length != CONTINUATION && (length < 0 || length > MAX_METADATA_BYTES)) {
        throw new IOException("a message claims to have %d bytes of metadata".formatted(length));
      }
    }
    return count;
  }
}
