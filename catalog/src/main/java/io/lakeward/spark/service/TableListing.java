package io.lakeward.spark.service;

import io.lakeward.spark.error.LakewardException;
import io.lakeward.sys.rpc.v1.DescribeTableResponse;
import io.lakeward.sys.rpc.v1.ListTablesResponse;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Collects the pages of the list of a namespace's tables. Refuses a list that never ends. */
final class TableListing {

  private final ReadLimits limits;
  private final List<String> names = new ArrayList<>();
  private final Map<String, DescribeTableResponse> tables = new LinkedHashMap<>();
  private final Set<String> tokens = new HashSet<>();
  private long bytes;

  TableListing(ReadLimits limits) {
    this.limits = limits;
  }

  void add(ListTablesResponse page) throws LakewardException {
    names.addAll(page.getTableNamesList());
    page.getTablesList().forEach(table -> tables.put(table.getName(), table));
    limits.checkRows(names.size());
    bytes += page.getSerializedSize();
    limits.checkBytes(bytes);
    String next = page.getNextPageToken();
    if (!next.isEmpty() && (page.getTableNamesCount() == 0 || !tokens.add(next))) {
      throw new LakewardException(
          ("the service's list of tables never ends: a page %s. Check %suri, and which version the"
                  + " service has.")
              .formatted(
                  page.getTableNamesCount() == 0
                      ? "without names is followed by another"
                      : "comes again",
                  limits.option()));
    }
  }

  List<String> names() {
    return names;
  }

  /** The descriptions that the pages carry, by the names of their tables. */
  Map<String, DescribeTableResponse> tables() {
    return tables;
  }
}
