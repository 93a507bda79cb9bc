package org.apache.iceberg.rest;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.Executors;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.NoSuchNamespaceException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.rest.requests.CreateNamespaceRequest;
import org.apache.iceberg.rest.requests.CreateTableRequest;
import org.apache.iceberg.rest.requests.ImmutableRegisterTableRequest;
import org.apache.iceberg.rest.requests.RegisterTableRequest;
import org.apache.iceberg.rest.requests.UpdateTableRequest;
import org.apache.iceberg.rest.responses.ConfigResponse;
import org.apache.iceberg.rest.responses.ErrorResponse;

/**
 * A REST catalog for tests: Iceberg's own handlers of requests in front of Iceberg's own JdbcCatalog.
 *
 * <p>In Iceberg's package, for what turns requests and responses into JSON is not public. Arguments: JDBC
 * URL, warehouse, and {@code overwrite} if it can overwrite a registered table, which JdbcCatalog cannot.
 * Prints the port that it took on the loopback interface.
 */
public final class RestCatalogServer {
  private static final String NAMESPACES = "/v1/namespaces";

  private final JdbcCatalog catalog = new JdbcCatalog();

  private final boolean overwrites;

  private RestCatalogServer(String uri, String warehouse, boolean overwrites) {
    this.overwrites = overwrites;
    catalog.setConf(new org.apache.hadoop.conf.Configuration());
    catalog.initialize("rest", Map.of("uri", uri, "warehouse", warehouse));
  }

  public static void main(String[] arguments) throws IOException {
    RestCatalogServer catalog = new RestCatalogServer(arguments[0], arguments[1], arguments.length > 2);
    HttpServer server =
        HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    server.setExecutor(Executors.newFixedThreadPool(4));
    server.createContext("/", catalog::answer);
    server.start();
    System.out.println(server.getAddress().getPort());
  }

  private void answer(HttpExchange exchange) throws IOException {
    int status = 200;
    Object body;
    try {
      body = handle(exchange);
    } catch (RuntimeException | IOException error) {
      status = statusOf(error);
      body =
          ErrorResponse.builder()
              .responseCode(status)
              .withType(error.getClass().getSimpleName())
              .withMessage(String.valueOf(error.getMessage()))
              .build();
    }
    byte[] content = body == null ? new byte[0] : RESTObjectMapper.mapper().writeValueAsBytes(body);
    boolean isHead = exchange.getRequestMethod().equals("HEAD");
    exchange.getResponseHeaders().set("Content-Type", "application/json");
    exchange.sendResponseHeaders(
        content.length == 0 && status == 200 ? 204 : status,
        content.length == 0 || isHead ? -1 : content.length);
    if (content.length > 0 && !isHead) {
      exchange.getResponseBody().write(content);
    }
    exchange.close();
  }

  private static int statusOf(Exception error) {
    if (error instanceof NoSuchTableException || error instanceof NoSuchNamespaceException) {
      return 404;
    }
    if (error instanceof CommitFailedException || error instanceof AlreadyExistsException) {
      return 409;
    }
    if (error instanceof UnsupportedOperationException) {
      return 406;
    }
    return error instanceof IllegalArgumentException ? 400 : 500;
  }

  /** The response to a request; null = it has none. */
  private Object handle(HttpExchange exchange) throws IOException {
    String path = exchange.getRequestURI().getRawPath();
    String method = exchange.getRequestMethod();
    if (path.equals("/v1/config")) {
      return ConfigResponse.builder().build();
    }
    if (!path.startsWith(NAMESPACES)) {
      throw new IllegalArgumentException("no such resource: " + path);
    }
    String[] parts =
        Arrays.stream(path.substring(NAMESPACES.length()).split("/"))
            .filter(part -> !part.isEmpty())
            .map(part -> URLDecoder.decode(part, StandardCharsets.UTF_8))
            .toArray(String[]::new);
    if (parts.length == 0) {
      return method.equals("GET")
          ? CatalogHandlers.listNamespaces(catalog, Namespace.empty())
          : CatalogHandlers.createNamespace(catalog, read(exchange, CreateNamespaceRequest.class));
    }
    Namespace namespace = Namespace.of(parts[0].split("\u001f"));
    if (parts.length == 1) {
      return CatalogHandlers.loadNamespace(catalog, namespace);
    }
    if (parts.length == 2 && parts[1].equals("register")) {
      return register(namespace, read(exchange, RegisterTableRequest.class));
    }
    if (parts.length == 2) {
      return method.equals("GET")
          ? CatalogHandlers.listTables(catalog, namespace)
          : create(namespace, read(exchange, CreateTableRequest.class));
    }
    return handleTable(exchange, method, TableIdentifier.of(namespace, parts[2]));
  }

  private Object create(Namespace namespace, CreateTableRequest request) {
    return request.stageCreate()
        ? CatalogHandlers.stageTableCreate(catalog, namespace, request)
        : CatalogHandlers.createTable(catalog, namespace, request);
  }

  /** Registers a metadata file. Requests for the table wait, so that they see the old or the new version. */
  private synchronized Object register(Namespace namespace, RegisterTableRequest request) {
    if (request.overwrite() && overwrites) {
      catalog.dropTable(TableIdentifier.of(namespace, request.name()), false);
      request =
          ImmutableRegisterTableRequest.builder().from(request).overwrite(false).build();
    }
    return CatalogHandlers.registerTable(catalog, namespace, request);
  }

  private synchronized Object handleTable(HttpExchange exchange, String method, TableIdentifier table)
      throws IOException {
    switch (method) {
      case "POST":
        return CatalogHandlers.updateTable(
            catalog, table, read(exchange, UpdateTableRequest.class));
      case "DELETE":
        CatalogHandlers.dropTable(catalog, table);
        return null;
      default:
        return CatalogHandlers.loadTable(
            catalog, table, RESTCatalogProperties.SnapshotMode.ALL);
    }
  }

  private static <T> T read(HttpExchange exchange, Class<T> kind) throws IOException {
    return RESTObjectMapper.mapper().readValue(exchange.getRequestBody(), kind);
  }
}
