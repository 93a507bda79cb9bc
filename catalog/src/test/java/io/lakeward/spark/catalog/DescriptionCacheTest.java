package io.lakeward.spark.catalog;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lakeward.spark.error.LakewardException;
import io.lakeward.sys.rpc.v1.DescribeResponse;
import java.time.Duration;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class DescriptionCacheTest {

  private long now;
  private int fetched;
  private String namespace = "old";
  private String user = "ann";

  private final DescriptionCache cache =
      new DescriptionCache(
          asking -> {
            fetched++;
            return new ServiceDescription(
                DescribeResponse.newBuilder()
                    .addNamespaces(namespace)
                    .addNamespaces("of_" + asking)
                    .build());
          },
          () -> user,
          () -> now);

  private Optional<String> find(String name) throws LakewardException {
    return cache.find(description -> description.namespace(name));
  }

  @Test
  void aDescriptionIsFetchedOnceASecond() throws LakewardException {
    cache.get();
    now += Duration.ofMillis(999).toNanos();
    cache.get();
    assertEquals(1, fetched);
    now += Duration.ofMillis(1).toNanos();
    cache.get();
    assertEquals(2, fetched);
  }

  @Test
  void whatIsFoundIsNotFetchedAgain() throws LakewardException {
    assertEquals(Optional.of("old"), find("OLD"));
    assertEquals(Optional.of("old"), find("old"));
    assertEquals(1, fetched);
  }

  @Test
  void aMissFetchesAgain() throws LakewardException {
    cache.get();
    namespace = "new";
    assertEquals(Optional.of("new"), find("new"));
    assertEquals(2, fetched);
  }

  @Test
  void aMissInWhatWasJustFetchedIsBelieved() throws LakewardException {
    assertTrue(find("nowhere").isEmpty());
    assertEquals(1, fetched);
  }

  @Test
  void whatIsForgottenIsFetchedAgain() throws LakewardException {
    cache.get();
    cache.forget();
    cache.get();
    assertEquals(2, fetched);
  }

  @Test
  void whatOneUserIsShownIsForNobodyElse() throws LakewardException {
    assertEquals(Optional.of("of_ann"), find("of_ann"));
    user = "bob";
    assertTrue(find("of_ann").isEmpty());
    assertEquals(Optional.of("of_bob"), find("of_bob"));
    assertEquals(2, fetched);
    user = "ann";
    assertEquals(Optional.of("of_ann"), find("of_ann"));
    assertEquals(2, fetched);
  }

  @Test
  void aNameThatCouldBeSeveralIsAmbiguousUnlessExact() throws LakewardException {
    ServiceDescription description =
        new ServiceDescription(
            DescribeResponse.newBuilder().addNamespaces("sales").addNamespaces("Sales").build());
    assertEquals(Optional.of("Sales"), description.namespace("Sales"));
    LakewardException error =
        assertThrows(LakewardException.class, () -> description.namespace("SALES"));
    assertTrue(error.getMessage().contains("Sales or sales"));
  }
}
