package io.lakeward.spark.catalog;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lakeward.spark.error.LakewardException;
import io.lakeward.sys.rpc.v1.DescribeResponse;
import java.util.List;
import org.junit.jupiter.api.Test;

class NameResolverTest {

  private static final String[] DEFAULT = {"DEFAULT"};

  private static NameResolver resolver(String... namespaces) {
    DescribeResponse response =
        DescribeResponse.newBuilder().addAllNamespaces(List.of(namespaces)).build();
    return new NameResolver(
        "fluss",
        new DescriptionCache(
            user -> new ServiceDescription(response), () -> "ann", System::nanoTime));
  }

  @Test
  void defaultIsEmptyWhereTheServiceHasNone() throws LakewardException {
    assertTrue(resolver("demo", "sys").isEmptyDefault(DEFAULT));
    assertFalse(resolver("demo", "sys").isEmptyDefault(new String[] {"demo"}));
    assertFalse(resolver("demo", "sys").isEmptyDefault(new String[] {"default", "demo"}));
  }

  @Test
  void aRealDefaultIsANamespaceLikeAnyOther() throws LakewardException {
    assertFalse(resolver("default", "sys").isEmptyDefault(DEFAULT));
    assertEquals("default", resolver("default", "sys").namespace(DEFAULT));
  }

  @Test
  void anEmptyDefaultIsNotListedAndItsErrorsListTheOthers() throws LakewardException {
    assertEquals(List.of("demo", "sys"), resolver("demo", "sys").namespaces());
    LakewardException error =
        assertThrows(LakewardException.class, () -> resolver("demo", "sys").namespace(DEFAULT));
    assertTrue(error.getMessage().contains("is empty: name another one"), error.getMessage());
    assertTrue(error.getMessage().contains("demo, sys"), error.getMessage());
  }
}
