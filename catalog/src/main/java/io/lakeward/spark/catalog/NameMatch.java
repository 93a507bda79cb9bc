package io.lakeward.spark.catalog;

import io.lakeward.spark.error.LakewardException;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import java.util.function.Function;
import java.util.stream.Collectors;

/**
 * Matches names as users type them: an exact match first, then the only match that differs in case;
 * several of these are an error.
 */
final class NameMatch {

  private NameMatch() {}

  /**
   * The item with that name; absent if there is none. Throws LakewardException if several names
   * differ from it only in case.
   */
  static <T> Optional<T> find(String name, Collection<T> items, Function<T, String> nameOf)
      throws LakewardException {
    Optional<T> exact = items.stream().filter(item -> nameOf.apply(item).equals(name)).findFirst();
    if (exact.isPresent()) {
      return exact;
    }
    List<T> alike =
        items.stream().filter(item -> nameOf.apply(item).equalsIgnoreCase(name)).toList();
    if (alike.size() > 1) {
      String candidates = alike.stream().map(nameOf).sorted().collect(Collectors.joining(" or "));
      throw new LakewardException(
          "the name %s is ambiguous: it could be %s; write it as it was created"
              .formatted(name, candidates));
    }
    return alike.stream().findFirst();
  }

  /** {@code names} for a message: sorted, or "none". */
  static String listed(Collection<String> names) {
    return names.isEmpty() ? "none" : names.stream().sorted().collect(Collectors.joining(", "));
  }
}
