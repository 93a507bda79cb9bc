package io.lakeward.spark;

import io.lakeward.spark.LakewardException.Missing;
import io.lakeward.sys.rpc.v1.Procedure;
import io.lakeward.sys.rpc.v1.SystemTable;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * Names in statements to what the service has; of what is not there, an error that lists what is.
 * Thread-safe.
 */
final class Directory {

  /** A system table, and the token and the capabilities of the description that it is from. */
  record Found(SystemTable table, String token, Set<String> capabilities) {}

  private final String catalog;
  private final DescriptionCache descriptions;

  /** {@code catalog}: its name. */
  Directory(String catalog, DescriptionCache descriptions) {
    this.catalog = catalog;
    this.descriptions = descriptions;
  }

  List<String> namespaces() throws LakewardException {
    return descriptions.get().namespaces();
  }

  /** The namespace as it is spelled, if there is one such. */
  Optional<String> findNamespace(String[] namespace) throws LakewardException {
    return namespace.length == 1
        ? descriptions.find(description -> description.namespace(namespace[0]))
        : Optional.empty();
  }

  /** The namespace as it is spelled. */
  String namespace(String[] namespace) throws LakewardException {
    return namespace(namespace, Missing.SCHEMA_NOT_FOUND);
  }

  /** The same; without it, {@code missing} is what Spark should hear. */
  String namespace(String[] namespace, Missing missing) throws LakewardException {
    Optional<String> found = findNamespace(namespace);
    if (found.isPresent()) {
      return found.get();
    }
    String asked = String.join(".", namespace);
    String problem =
        namespace.length == 1
            ? "there is no namespace %s in the catalog %s".formatted(asked, catalog)
            : "names in the catalog %s are namespace.table, with exactly one namespace"
                .formatted(catalog);
    String there = "The namespaces of %s are: %s.".formatted(catalog, Names.listed(namespaces()));
    throw LakewardException.unknown(missing, asked, problem + ". " + there);
  }

  /** Whether a namespace, as it is spelled, holds system tables or procedures. */
  boolean isSystem(String namespace) throws LakewardException {
    return descriptions.get().isSystem(namespace);
  }

  /** A table of a namespace of system tables, as that is spelled. */
  Found table(String namespace, String name) throws LakewardException {
    Optional<Found> found =
        descriptions.find(
            description ->
                description
                    .table(namespace, name)
                    .map(
                        table ->
                            new Found(table, description.token(), description.capabilities())));
    if (found.isPresent()) {
      return found.get();
    }
    List<String> known =
        descriptions.get().tables(namespace).stream().map(SystemTable::getName).toList();
    throw unknown(Missing.TABLE_OR_VIEW_NOT_FOUND, "system table", namespace, name, known);
  }

  /** Names of a namespace's procedures; the namespace as it is spelled. */
  List<String> procedures(String namespace) throws LakewardException {
    return descriptions.get().procedures(namespace).stream().map(Procedure::getName).toList();
  }

  /** A procedure of a namespace, as that is spelled. */
  Procedure procedure(String namespace, String name) throws LakewardException {
    Optional<Procedure> found =
        descriptions.find(description -> description.procedure(namespace, name));
    if (found.isPresent()) {
      return found.get();
    }
    throw unknown(Missing.ROUTINE_NOT_FOUND, "procedure", namespace, name, procedures(namespace));
  }

  /** Makes the next look-up ask the service. */
  void forget() {
    descriptions.forget();
  }

  private LakewardException unknown(
      Missing missing, String what, String namespace, String name, Collection<String> known) {
    String path = String.join(".", catalog, namespace, name);
    return LakewardException.unknown(
        missing,
        path,
        "there is no %s %s. Those of %s are: %s."
            .formatted(what, path, namespace, Names.listed(known)));
  }
}
