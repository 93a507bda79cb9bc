package io.lakeward.spark.service;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.protobuf.ByteString;
import java.io.IOException;
import java.util.List;
import java.util.function.Function;
import org.junit.jupiter.api.Test;

class PieceStreamTest {

  private static PieceStream<ByteString> stream(String... pieces) {
    List<ByteString> messages = List.of(pieces).stream().map(ByteString::copyFromUtf8).toList();
    return new PieceStream<>(messages.iterator(), Function.identity());
  }

  @Test
  void piecesAreReadAsOne() throws IOException {
    assertArrayEquals("abcdef".getBytes(), stream("ab", "", "c", "def", "").readAllBytes());
  }

  @Test
  void aReadMayBeSmallerOrLargerThanAPiece() throws IOException {
    PieceStream<ByteString> stream = stream("abc", "d");
    byte[] target = new byte[5];
    assertEquals(2, stream.read(target, 1, 2));
    assertEquals('c', stream.read());
    assertEquals(1, stream.read(target, 3, 2));
    assertEquals(-1, stream.read(target, 0, 5));
    assertEquals(-1, stream.read());
    assertArrayEquals(new byte[] {0, 'a', 'b', 'd', 0}, target);
  }

  @Test
  void bytesAreNotNegative() {
    PieceStream<ByteString> stream =
        new PieceStream<>(
            List.of(ByteString.copyFrom(new byte[] {(byte) 0xFF})).iterator(), Function.identity());
    assertEquals(0xFF, stream.read());
  }

  @Test
  void nothingIsTheEnd() {
    assertEquals(-1, stream().read());
    assertEquals(-1, stream("").read());
  }
}
