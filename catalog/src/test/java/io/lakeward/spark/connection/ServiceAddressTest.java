package io.lakeward.spark.connection;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvFileSource;

class ServiceAddressTest {

  /** tests/access/test_loopback.py reads the same lines: Java and Python name one file. */
  @ParameterizedTest
  @CsvFileSource(resources = "/token-files.txt", delimiter = ' ')
  void anAddressHasOneFileAsInPython(String address, String file, String where) {
    ServiceAddress parts = ServiceAddress.of(address);
    assertEquals(file, parts.tokenFileName("m"));
    assertEquals(where.equals("stays"), parts.staysOnThisMachine());
  }

  @Test
  void theIdOfTheMachineIsHashedAsInPython() {
    assertEquals("a759f43c70159bf8", ServiceAddress.hashedMachineId("0123456789abcdef"));
  }
}
