package io.lakeward.spark.connection;

import io.grpc.EquivalentAddressGroup;
import io.grpc.NameResolver;
import io.grpc.NameResolverProvider;
import io.grpc.NameResolverRegistry;
import io.grpc.Status;
import io.grpc.StatusOr;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.URI;
import java.net.URISyntaxException;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;

/**
 * The addresses of one service, {@code a:7707,b:7707}, as the target of one channel. gRPC connects
 * to the first address that accepts, and starts with the first again when that connection is lost.
 * It also looks up the hosts' names again then. Each certificate must be for the name of the first
 * address, as in tiering/wire/channel.py, because a channel checks one name.
 */
final class AddressList extends NameResolverProvider {

  private static final String SCHEME = "lakeward-addresses";

  static {
    NameResolverRegistry.getDefaultRegistry().register(new AddressList());
  }

  private AddressList() {}

  /** The target of a channel for the addresses, which have commas between them. */
  static String target(String addresses) {
    try {
      return new URI(SCHEME, "", "/" + addresses, null).toString();
    } catch (URISyntaxException impossible) {
      throw new IllegalArgumentException(addresses, impossible);
    }
  }

  /** The addresses of a target, {@code host:port} each. */
  static List<String> split(String addresses) {
    return Arrays.asList(addresses.split(","));
  }

  @Override
  public NameResolver newNameResolver(URI target, NameResolver.Args args) {
    if (!SCHEME.equals(target.getScheme())) {
      return null;
    }
    return new Resolver(split(target.getPath().substring(1)), args);
  }

  @Override
  public String getDefaultScheme() {
    return SCHEME;
  }

  /** Lower than that of DNS, so that a target without a scheme is not an address list. */
  @Override
  protected int priority() {
    return 0;
  }

  @Override
  protected boolean isAvailable() {
    return true;
  }

  @Override
  public Collection<Class<? extends SocketAddress>> getProducedSocketAddressTypes() {
    return List.of(InetSocketAddress.class);
  }

  private static final class Resolver extends NameResolver {

    private final List<String> addresses;
    private final NameResolver.Args channel;
    private Listener2 listener;
    private boolean looksUp;

    Resolver(List<String> addresses, NameResolver.Args channel) {
      this.addresses = addresses;
      this.channel = channel;
    }

    @Override
    public String getServiceAuthority() {
      return addresses.get(0);
    }

    @Override
    public void start(Listener2 listener) {
      this.listener = listener;
      refresh();
    }

    /** Looks the names up again; gRPC asks when a connection was lost or could not be made. */
    @Override
    public void refresh() {
      if (!looksUp) {
        looksUp = true;
        channel.getOffloadExecutor().execute(this::lookUp);
      }
    }

    private void lookUp() {
      StatusOr<List<EquivalentAddressGroup>> resolved = resolved();
      channel
          .getSynchronizationContext()
          .execute(
              () -> {
                looksUp = false;
                listener.onResult(
                    ResolutionResult.newBuilder().setAddressesOrError(resolved).build());
              });
    }

    /**
     * All hosts with an address, in the order of the list; a host that cannot be resolved is left
     * out.
     */
    private StatusOr<List<EquivalentAddressGroup>> resolved() {
      List<EquivalentAddressGroup> groups = new ArrayList<>();
      Status unknown = Status.UNAVAILABLE;
      for (String address : addresses) {
        try {
          ServiceAddress parts = ServiceAddress.of(address);
          for (InetAddress host : InetAddress.getAllByName(parts.connectedHost())) {
            groups.add(new EquivalentAddressGroup(new InetSocketAddress(host, parts.port())));
          }
        } catch (UnknownHostException missing) {
          unknown = unknown.withDescription(
                  "the name %s is unknown".formatted(ServiceAddress.of(address).host()));
        }
      }
      return groups.isEmpty() ? StatusOr.fromStatus(unknown) : StatusOr.fromValue(groups);
    }

    @Override
    public void shutdown() {}
  }
}
