package io.lakeward.spark;

import io.lakeward.sys.rpc.v1.DescribeResponse;
import io.lakeward.sys.rpc.v1.Procedure;
import io.lakeward.sys.rpc.v1.SystemTable;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * What the service has, at one moment: namespaces, system tables, procedures. A value; names are
 * case-insensitive.
 */
final class Description {

  private final DescribeResponse said;

  Description(DescribeResponse said) {
    this.said = said;
  }

  /**
   * What a later read must send, so that the service can tell whether its columns are still as
   * described here.
   */
  String token() {
    return said.getToken();
  }

  /** What ReadTable understands beyond its first version (proto DescribeResponse.capabilities). */
  Set<String> capabilities() {
    return Set.copyOf(said.getCapabilitiesList());
  }

  List<String> namespaces() {
    return said.getNamespacesList();
  }

  /** The namespace as it is spelled. */
  Optional<String> namespace(String name) throws LakewardException {
    return Names.find(name, namespaces(), spelled -> spelled);
  }

  /** Whether it holds system tables or procedures; {@code namespace} as it is spelled. */
  boolean isSystem(String namespace) {
    return !tables(namespace).isEmpty() || !procedures(namespace).isEmpty();
  }

  /** System tables of a namespace, as it is spelled. */
  List<SystemTable> tables(String namespace) {
    return said.getSystemTablesList().stream()
        .filter(table -> table.getNamespace().equals(namespace))
        .toList();
  }

  Optional<SystemTable> table(String namespace, String name) throws LakewardException {
    return Names.find(name, tables(namespace), SystemTable::getName);
  }

  /** Procedures of a namespace, as it is spelled. */
  List<Procedure> procedures(String namespace) {
    return said.getProceduresList().stream()
        .filter(procedure -> procedure.getNamespace().equals(namespace))
        .toList();
  }

  Optional<Procedure> procedure(String namespace, String name) throws LakewardException {
    return Names.find(name, procedures(namespace), Procedure::getName);
  }
}
