package io.lakeward.spark.service;

import com.google.protobuf.ByteString;
import io.grpc.ConnectivityState;
import io.grpc.Context;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.AbstractStub;
import io.grpc.stub.MetadataUtils;
import io.lakeward.rpc.v1.CallProcedureRequest;
import io.lakeward.rpc.v1.CallProcedureResponse;
import io.lakeward.rpc.v1.CloseReadRequest;
import io.lakeward.rpc.v1.CountWrittenRequest;
import io.lakeward.rpc.v1.CountWrittenResponse;
import io.lakeward.rpc.v1.NextBatchRequest;
import io.lakeward.rpc.v1.OpenReadRequest;
import io.lakeward.rpc.v1.OpenReadResponse;
import io.lakeward.rpc.v1.OpenWriteRequest;
import io.lakeward.rpc.v1.OpenWriteResponse;
import io.lakeward.rpc.v1.PbTablePath;
import io.lakeward.rpc.v1.PlanBatchRequest;
import io.lakeward.rpc.v1.PlanReadRequest;
import io.lakeward.rpc.v1.RenewReadRequest;
import io.lakeward.rpc.v1.RenewReadResponse;
import io.lakeward.rpc.v1.ShowPartitionsRequest;
import io.lakeward.rpc.v1.ShowPartitionsResponse;
import io.lakeward.rpc.v1.StatementResponse;
import io.lakeward.rpc.v1.TableDefinitionsGrpc;
import io.lakeward.rpc.v1.TableDefinitionsGrpc.TableDefinitionsBlockingStub;
import io.lakeward.rpc.v1.TableReadsGrpc;
import io.lakeward.rpc.v1.TableReadsGrpc.TableReadsBlockingStub;
import io.lakeward.rpc.v1.TableWritesGrpc;
import io.lakeward.rpc.v1.TableWritesGrpc.TableWritesBlockingStub;
import io.lakeward.rpc.v1.TieringControlGrpc;
import io.lakeward.spark.connection.ServiceChannels;
import io.lakeward.spark.error.LakewardException;
import io.lakeward.sys.rpc.v1.DescribeRequest;
import io.lakeward.sys.rpc.v1.DescribeResponse;
import io.lakeward.sys.rpc.v1.DescribeTableRequest;
import io.lakeward.sys.rpc.v1.DescribeTableResponse;
import io.lakeward.sys.rpc.v1.ListTablesRequest;
import io.lakeward.sys.rpc.v1.ListTablesResponse;
import io.lakeward.sys.rpc.v1.ReadTableRequest;
import io.lakeward.sys.rpc.v1.ReadTableResponse;
import io.lakeward.sys.rpc.v1.SysCatalogGrpc.SysCatalogBlockingStub;
import io.lakeward.sys.rpc.v1.SysCatalogGrpc;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The client of the service. Thread-safe. Every method throws LakewardException if its call fails.
 *
 * <p>Each call names the user for whom it is made; the service accepts that from callers with the
 * privilege IMPERSONATE. A read has the catalog's deadline. It is sent a second time if the
 * connection is dead; with a standby, it is sent until the standby had the time to take over. A
 * CALL, and a statement that defines a table, has no deadline. It is sent again with the same
 * idempotency key, until the service answers or the catalog's retry timeout ends.
 */
public final class ServiceClient {

  private static final Logger LOG = LoggerFactory.getLogger(ServiceClient.class);

  /** The header with the user for whom a call is made (tiering/access/acting_for.py). */
  private static final Metadata.Key<byte[]> USER =
      Metadata.Key.of("lakeward-user-bin", Metadata.BINARY_BYTE_MARSHALLER);

  /** A standby leads within 5 seconds after its leader ends, or 10 after its leader hangs. */
  private static final Duration TAKE_OVER = Duration.ofSeconds(15);

  /** One call of the service. Throws StatusRuntimeException if it fails. */
  @FunctionalInterface
  private interface Rpc<S, T> {
    T run(S stub) throws LakewardException;
  }

  private final CatalogOptions options;
  private final ServiceErrors errors;
  private final ManagedChannel channel;
  private final Duration takeOver;

  public ServiceClient(String catalog, CatalogOptions options) throws LakewardException {
    this(catalog, options, TAKE_OVER);
  }

  /** {@code takeOver}: how long a read waits for one of several coordinators to lead. */
  ServiceClient(String catalog, CatalogOptions options, Duration takeOver)
      throws LakewardException {
    this.takeOver = takeOver;
    this.options = options;
    this.errors = new ServiceErrors(catalog, options);
    this.channel = ServiceChannels.get(options.target(), options.access());
  }

  /** The address of the service, {@code host:port}; several with commas between them. */
  public String target() {
    return options.target();
  }

  /** The Python with which executors read what the service has planned; empty = Spark's. */
  public Optional<String> python() {
    return options.python();
  }

  /** All namespaces, system tables and procedures. */
  public DescribeResponse describe(String user) throws LakewardException {
    return read(user, stub -> stub.describe(DescribeRequest.getDefaultInstance()));
  }

  /** Names of all tables of a namespace. */
  public List<String> listTables(String user, String namespace) throws LakewardException {
    ListTablesRequest request = ListTablesRequest.newBuilder().setNamespace(namespace).build();
    return listing(user, request).names();
  }

  /** All tables of a namespace, described, by their names. */
  public Map<String, DescribeTableResponse> describeTables(String user, String namespace)
      throws LakewardException {
    ListTablesRequest request =
        ListTablesRequest.newBuilder().setNamespace(namespace).setDescribed(true).build();
    return listing(user, request).tables();
  }

  private TableListing listing(String user, ListTablesRequest first) throws LakewardException {
    TableListing listing = new TableListing(options.limits());
    ListTablesRequest request = first;
    do {
      ListTablesRequest page = request;
      ListTablesResponse response = read(user, stub -> stub.listTables(page));
      listing.add(response);
      request = page.toBuilder().setPageToken(response.getNextPageToken()).build();
    } while (!request.getPageToken().isEmpty());
    return listing;
  }

  /** One data table; an unknown one is TABLE_OR_VIEW_NOT_FOUND. */
  public DescribeTableResponse describeTable(String user, String namespace, String name)
      throws LakewardException {
    DescribeTableRequest request =
        DescribeTableRequest.newBuilder().setNamespace(namespace).setName(name).build();
    return read(
        SysCatalogGrpc.newBlockingStub(channel),
        user,
        stub -> stub.describeTable(request),
        error -> errors.translate(error, namespace + "." + name));
  }

  /** The rows of a system table; {@code schema} has the columns the statement was planned with. */
  public InternalRow[] readTable(String user, ReadTableRequest request, StructType schema)
      throws LakewardException {
    RowsScan scan =
        read(
            user,
            stub ->
                ArrowRows.read(
                    new PieceStream<>(stub.readTable(request), ReadTableResponse::getArrow),
                    schema,
                    options.limits()));
    String actual = scan.readSchema().catalogString();
    if (!actual.equals(schema.catalogString())) {
      throw new LakewardException(
          ("the columns of %s.%s are no longer as the statement was planned (%s, not %s)."
                  + " Run the statement again.")
              .formatted(
                  request.getNamespace(), request.getName(), actual, schema.catalogString()));
    }
    return scan.rows();
  }

  /** Fixes the moment of a read of a data table; an unknown one is TABLE_OR_VIEW_NOT_FOUND. */
  public OpenReadResponse openRead(String user, OpenReadRequest request)
      throws LakewardException {
    return read(
        TableReadsGrpc.newBlockingStub(channel),
        user,
        stub -> stub.openRead(request),
        translatorFor(request.getTablePath()));
  }

  /** Extends the time for which the service holds what a read needs. */
  public RenewReadResponse renewRead(String user, ByteString ticket) throws LakewardException {
    RenewReadRequest request = RenewReadRequest.newBuilder().setTicket(ticket).build();
    return ofReads(user, stub -> stub.renewRead(request));
  }

  /** Ends a read: the service no longer holds what it needs. */
  public void closeRead(String user, ByteString ticket) throws LakewardException {
    CloseReadRequest request = CloseReadRequest.newBuilder().setTicket(ticket).build();
    ofReads(user, stub -> stub.closeRead(request));
  }

  /** The tasks of one scan of a read, or its number of rows. */
  public ScanPlan planRead(String user, PlanReadRequest request) throws LakewardException {
    return ofReads(
        user,
        stub -> {
          ScanPlan.Joiner plan = new ScanPlan.Joiner();
          stub.planRead(request).forEachRemaining(plan::add);
          return plan.joined();
        });
  }

  /** The end of the next batch of a stream. */
  public String nextBatch(String user, NextBatchRequest request) throws LakewardException {
    return ofReads(user, stub -> stub.nextBatch(request).getOffset());
  }

  /** The tasks of one batch of a stream. */
  public List<ByteString> planBatch(String user, PlanBatchRequest request)
      throws LakewardException {
    return ofReads(
        user,
        stub -> {
          ScanPlan.Joiner plan = new ScanPlan.Joiner();
          stub.planBatch(request).forEachRemaining(plan::add);
          return plan.joined().tasks();
        });
  }

  /** Begins a statement that writes rows; an unknown table is TABLE_OR_VIEW_NOT_FOUND. */
  public OpenWriteResponse openWrite(String user, OpenWriteRequest request)
      throws LakewardException {
    return ofWrites(
        user, stub -> stub.openWrite(request), translatorFor(request.getTablePath()));
  }

  /** The number of records that a statement has in the log; empty if the cluster cannot tell. */
  public OptionalLong countWritten(String user, ByteString ticket) throws LakewardException {
    CountWrittenRequest request = CountWrittenRequest.newBuilder().setTicket(ticket).build();
    CountWrittenResponse written =
        ofWrites(user, stub -> stub.countWritten(request), errors::translate);
    return written.hasRecords() ? OptionalLong.of(written.getRecords()) : OptionalLong.empty();
  }

  /** The certificate authorities that this client trusts, as PEM; empty = none are named. */
  public ByteString trustedAuthorities() throws LakewardException {
    Optional<Path> file = options.access().tlsCa();
    try {
      return file.isEmpty() ? ByteString.EMPTY : ByteString.copyFrom(Files.readAllBytes(file.get()));
    } catch (IOException error) {
      throw new LakewardException("cannot read the file %s of tls.ca".formatted(file.get()), error);
    }
  }

  private <T> T ofReads(String user, Rpc<TableReadsBlockingStub, T> rpc)
      throws LakewardException {
    return read(TableReadsGrpc.newBlockingStub(channel), user, rpc, errors::translate);
  }

  private <T> T ofWrites(
      String user,
      Rpc<TableWritesBlockingStub, T> rpc,
      Function<StatusRuntimeException, LakewardException> translate)
      throws LakewardException {
    return read(TableWritesGrpc.newBlockingStub(channel), user, rpc, translate);
  }

  /** Returns the translation of the errors of a call about one data table. */
  private Function<StatusRuntimeException, LakewardException> translatorFor(PbTablePath table) {
    return error -> errors.translate(error, TablePaths.text(table));
  }

  /** Executes a procedure and waits for its result. */
  public RowsScan callProcedure(String user, CallProcedureRequest request)
      throws LakewardException {
    RetryBackoff backoff = untilRetryTimeout();
    ProgressLog progress = new ProgressLog(LOG, "sys." + request.getName());
    try {
      return repeated(
          "CALL sys." + request.getName(),
          backoff,
          stub ->
              ArrowRows.read(
                  new PieceStream<>(
                      stub.callProcedure(request), step -> received(step, backoff, progress)),
                  new StructType(),
                  options.limits()),
          () -> connected(TieringControlGrpc.newBlockingStub(channel), user));
    } catch (StatusRuntimeException error) {
      throw ServiceErrors.isUnreachable(error)
          ? errors.lostCall(request, error)
          : errors.translate(error);
    }
  }

  /**
   * Sends a statement that defines a database or a table, and returns when it has its effect.
   * Returns false, without an effect, if what the statement creates exists already. {@code
   * statement} is its first words.
   */
  public boolean define(
      String user, String statement, Function<TableDefinitionsBlockingStub, StatementResponse> rpc)
      throws LakewardException {
    try {
      repeated(
          statement,
          untilRetryTimeout(),
          rpc::apply,
          () -> connected(TableDefinitionsGrpc.newBlockingStub(channel), user));
      return true;
    } catch (StatusRuntimeException error) {
      if (error.getStatus().getCode() == Status.Code.ALREADY_EXISTS) {
        return false;
      }
      throw ServiceErrors.isUnreachable(error)
          ? errors.lostStatement(statement, error)
          : errors.translate(error);
    }
  }

  /** The partitions of a table as rows with the columns of {@code schema}. */
  public InternalRow[] partitions(String user, ShowPartitionsRequest request, StructType schema)
      throws LakewardException {
    return read(
            TableDefinitionsGrpc.newBlockingStub(channel),
            user,
            stub ->
                ArrowRows.read(
                    new PieceStream<>(
                        stub.showPartitions(request), ShowPartitionsResponse::getArrow),
                    schema,
                    options.limits()),
            errors::translate)
        .rows();
  }

  private RetryBackoff untilRetryTimeout() {
    return new RetryBackoff(options.retryTimeout(), System::nanoTime, Thread::sleep);
  }

  /**
   * Sends a request with an idempotency key until a service answers. Throws StatusRuntimeException
   * for an answer that is an error, and if no service answers before {@code backoff} ends.
   */
  private static <S, T> T repeated(
      String statement, RetryBackoff backoff, Rpc<S, T> rpc, Supplier<S> stub)
      throws LakewardException {
    while (true) {
      try {
        return attempt(rpc, stub.get());
      } catch (StatusRuntimeException error) {
        if (!ServiceErrors.isUnreachable(error) || !backoff.pause()) {
          throw error;
        }
        LOG.warn("{}: the service went away; asking again", statement);
      }
    }
  }

  private static ByteString received(
      CallProcedureResponse step, RetryBackoff backoff, ProgressLog progress) {
    backoff.reset();
    if (step.hasProgress()) {
      progress.add(step.getProgress().getMessage());
    }
    return step.getArrow();
  }

  private <T> T read(String user, Rpc<SysCatalogBlockingStub, T> rpc) throws LakewardException {
    return read(SysCatalogGrpc.newBlockingStub(channel), user, rpc, errors::translate);
  }

  private <S extends AbstractStub<S>, T> T read(
      S service,
      String user,
      Rpc<S, T> rpc,
      Function<StatusRuntimeException, LakewardException> translate)
      throws LakewardException {
    RetryBackoff backoff = new RetryBackoff(takeOver, System::nanoTime, Thread::sleep);
    for (int failures = 1; ; failures++) {
      try {
        return attempt(rpc, limited(service, user));
      } catch (StatusRuntimeException error) {
        boolean again =
            failures == 1
                ? ServiceErrors.isUnreachable(error)
                : options.hasStandby() && errors.mayComeBack(error) && backoff.pause();
        if (!again) {
          throw translate.apply(error);
        }
      }
    }
  }

  /** Makes one attempt, and cancels the unread rest of the answer. */
  private static <S, T> T attempt(Rpc<S, T> rpc, S stub) throws LakewardException {
    Context.CancellableContext context = Context.current().withCancellation();
    Context before = context.attach();
    try {
      return rpc.run(stub);
    } finally {
      context.detach(before);
      context.cancel(null);
    }
  }

  private <S extends AbstractStub<S>> S limited(S stub, String user) {
    return connected(stub, user)
        .withDeadlineAfter(options.timeout().toMillis(), TimeUnit.MILLISECONDS);
  }

  /** A stub that connects at once, even when the last attempt failed a moment ago. */
  private <S extends AbstractStub<S>> S connected(S stub, String user) {
    if (channel.getState(false) == ConnectivityState.TRANSIENT_FAILURE) {
      channel.enterIdle();
    }
    if (user.isEmpty()) {
      return stub;
    }
    Metadata headers = new Metadata();
    headers.put(USER, user.getBytes(StandardCharsets.UTF_8));
    return stub.withInterceptors(MetadataUtils.newAttachHeadersInterceptor(headers));
  }
}
