package io.lakeward.spark.service;

import io.lakeward.spark.error.LakewardException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** Collects the pages of a namespace's table names; a listing that never ends is an error. */
final class TableListing {

  private final ReadLimits limits;
  private final List<String> names = new ArrayList<>();
  private final Set<String> tokens = new HashSet<>();
  private long bytes;

  TableListing(ReadLimits limits) {
    this.limits = limits;
  }

  /** A page, and the token of the next one: empty for the last. */
  void add(List<String> page, String nextToken) throws LakewardException {
    names.addAll(page);
    limits.checkRows(names.size());
    bytes += page.stream().mapToLong(String::length).sum() + nextToken.length();
    limits.checkBytes(bytes);
    if (!nextToken.isEmpty() && (page.isEmpty() || !tokens.add(nextToken))) {
      throw new LakewardException(
          "the service's list of tables never ends: a page "
              + (page.isEmpty() ? "without names is followed by another" : "comes again")
              + ". Check %suri, and which version the service has.".formatted(limits.option()));
    }
  }

  List<String> all() {
    return names;
  }
}
