package io.lakeward.spark.catalog;

import io.lakeward.spark.error.LakewardException;
import io.lakeward.sys.rpc.v1.DescribeResponse;
import io.lakeward.sys.rpc.v1.Procedure;
import io.lakeward.sys.rpc.v1.SystemTable;
import java.util.List;
import java.util.Optional;

/**
 * The namespaces, system tables and procedures of the service at one moment. A value; names are
 * case-insensitive.
 */
final class ServiceDescription {

  private final DescribeResponse response;

  ServiceDescription(DescribeResponse response) {
    this.response = response;
  }

  /**
   * The token that a later read sends. With it the service checks whether the columns are still as
   * described here.
   */
  String token() {
    return response.getToken();
  }

  List<String> namespaces() {
    return response.getNamespacesList();
  }

  /** The namespace as it is spelled. */
  Optional<String> namespace(String name) throws LakewardException {
    return NameMatch.find(name, namespaces(), spelled -> spelled);
  }

  /** Whether it has system tables or procedures; {@code namespace} as it is spelled. */
  boolean isSystem(String namespace) {
    return !tables(namespace).isEmpty() || !procedures(namespace).isEmpty();
  }

  /** System tables of a namespace, as it is spelled. */
  List<SystemTable> tables(String namespace) {
    return response.getSystemTablesList().stream()
        .filter(table -> table.getNamespace().equals(namespace))
        .toList();
  }

  Optional<SystemTable> table(String namespace, String name) throws LakewardException {
    return NameMatch.find(name, tables(namespace), SystemTable::getName);
  }

  /** Procedures of a namespace, as it is spelled. */
  List<Procedure> procedures(String namespace) {
    return response.getProceduresList().stream()
        .filter(procedure -> procedure.getNamespace().equals(namespace))
        .toList();
  }

  Optional<Procedure> procedure(String namespace, String name) throws LakewardException {
    return NameMatch.find(name, procedures(namespace), Procedure::getName);
  }
}
