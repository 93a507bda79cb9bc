package io.lakeward.spark.catalog;

import io.lakeward.spark.error.LakewardException;
import io.lakeward.spark.error.LakewardException.Missing;
import io.lakeward.sys.rpc.v1.Procedure;
import io.lakeward.sys.rpc.v1.SystemTable;
import java.util.Collection;
import java.util.List;
import java.util.Optional;

/**
 * Resolves names in statements to the namespaces, system tables and procedures of the service. For
 * an unknown name it throws an error that lists the known ones. Thread-safe.
 */
final class NameResolver {

  /** A system table, with the token of the description that has it. */
  record DescribedTable(SystemTable table, String token) {}

  /**
   * The namespace of a session that chose none: JDBC drivers send it for a URL without a database.
   * If the service has no such namespace, the catalog accepts it as an empty one that is not
   * listed.
   */
  private static final String DEFAULT_NAMESPACE = "default";

  private final String catalog;
  private final DescriptionCache descriptions;

  /** {@code catalog}: its name. */
  NameResolver(String catalog, DescriptionCache descriptions) {
    this.catalog = catalog;
    this.descriptions = descriptions;
  }

  List<String> namespaces() throws LakewardException {
    return descriptions.get().namespaces();
  }

  /** The namespace as it is spelled; absent if there is none. */
  Optional<String> findNamespace(String[] namespace) throws LakewardException {
    return namespace.length == 1
        ? descriptions.find(description -> description.namespace(namespace[0]))
        : Optional.empty();
  }

  /** Whether this is {@code default}, and the service has no namespace of that name. */
  boolean isEmptyDefault(String[] namespace) throws LakewardException {
    return isDefault(namespace) && findNamespace(namespace).isEmpty();
  }

  private static boolean isDefault(String[] namespace) {
    return namespace.length == 1 && namespace[0].equalsIgnoreCase(DEFAULT_NAMESPACE);
  }

  /** The namespace as it is spelled. */
  String namespace(String[] namespace) throws LakewardException {
    return namespace(namespace, Missing.SCHEMA_NOT_FOUND);
  }

  /** The namespace as it is spelled; {@code missing} is the error condition if there is none. */
  String namespace(String[] namespace, Missing missing) throws LakewardException {
    Optional<String> match = findNamespace(namespace);
    if (match.isPresent()) {
      return match.get();
    }
    String path = String.join(".", namespace);
    String problem;
    if (isDefault(namespace)) {
      problem =
          "the namespace %s of the catalog %s is empty: name another one, as in namespace.name"
              .formatted(path, catalog);
    } else if (namespace.length == 1) {
      problem = "there is no namespace %s in the catalog %s".formatted(path, catalog);
    } else {
      problem =
          "names in the catalog %s are namespace.table, with exactly one namespace"
              .formatted(catalog);
    }
    String hint =
        "The namespaces of %s are: %s.".formatted(catalog, NameMatch.listed(namespaces()));
    throw LakewardException.unknown(missing, path, problem + ". " + hint);
  }

  /** Whether a namespace, written as it is spelled, has system tables or procedures. */
  boolean isSystem(String namespace) throws LakewardException {
    return descriptions.get().isSystem(namespace);
  }

  /** A system table of a namespace, which is written as it is spelled. */
  DescribedTable table(String namespace, String name) throws LakewardException {
    Optional<DescribedTable> match =
        descriptions.find(
            description ->
                description
                    .table(namespace, name)
                    .map(table -> new DescribedTable(table, description.token())));
    if (match.isPresent()) {
      return match.get();
    }
    List<String> tables =
        descriptions.get().tables(namespace).stream().map(SystemTable::getName).toList();
    throw unknown(Missing.TABLE_OR_VIEW_NOT_FOUND, "system table", namespace, name, tables);
  }

  /** Names of the procedures of a namespace, which is written as it is spelled. */
  List<String> procedures(String namespace) throws LakewardException {
    return descriptions.get().procedures(namespace).stream().map(Procedure::getName).toList();
  }

  /** A procedure of a namespace, which is written as it is spelled. */
  Procedure procedure(String namespace, String name) throws LakewardException {
    Optional<Procedure> match =
        descriptions.find(description -> description.procedure(namespace, name));
    if (match.isPresent()) {
      return match.get();
    }
    throw unknown(Missing.ROUTINE_NOT_FOUND, "procedure", namespace, name, procedures(namespace));
  }

  /** Makes the next look-up ask the service. */
  void forget() {
    descriptions.forget();
  }

  private LakewardException unknown(
      Missing missing, String kind, String namespace, String name, Collection<String> names) {
    String path = String.join(".", catalog, namespace, name);
    return LakewardException.unknown(
        missing,
        path,
        "there is no %s %s. Those of %s are: %s."
            .formatted(kind, path, namespace, NameMatch.listed(names)));
  }
}
