package io.lakeward.spark;

import java.util.Collection;
import java.util.List;
import java.util.Optional;
import java.util.function.Function;
import java.util.stream.Collectors;

/**
 * Names as users type them: the exact one first, then the only one that differs in case, else
 * "ambiguous".
 */
final class Names {

  private Names() {}

  /**
   * The one of {@code known} that is called {@code name}; throws LakewardException if it could be
   * several.
   */
  static <T> Optional<T> find(String name, Collection<T> known, Function<T, String> nameOf)
      throws LakewardException {
    Optional<T> exact = known.stream().filter(one -> nameOf.apply(one).equals(name)).findFirst();
    if (exact.isPresent()) {
      return exact;
    }
    List<T> alike = known.stream().filter(one -> nameOf.apply(one).equalsIgnoreCase(name)).toList();
    if (alike.size() > 1) {
      String candidates = alike.stream().map(nameOf).sorted().collect(Collectors.joining(" or "));
      throw new LakewardException(
          "the name "
              + name
              + " is ambiguous: it could be "
              + candidates
              + "; write it as it was created");
    }
    return alike.stream().findFirst();
  }

  /** {@code names} for a message: sorted, or "none". */
  static String listed(Collection<String> names) {
    return names.isEmpty() ? "none" : names.stream().sorted().collect(Collectors.joining(", "));
  }
}
