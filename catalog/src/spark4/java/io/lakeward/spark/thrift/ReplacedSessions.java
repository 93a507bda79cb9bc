package io.lakeward.spark.thrift;

import java.util.AbstractMap;
import java.util.Map;
import java.util.Set;
import java.util.function.UnaryOperator;

/** The sessions of a Thrift server by their handles, which replaces each session that is added. */
final class ReplacedSessions extends AbstractMap<Object, Object> {

  private final Map<Object, Object> sessions;
  private final UnaryOperator<Object> replacement;

  /** {@code sessions}: the server's own map, which stays in use. */
  ReplacedSessions(Map<Object, Object> sessions, UnaryOperator<Object> replacement) {
    this.sessions = sessions;
    this.replacement = replacement;
  }

  @Override
  public Object put(Object handle, Object session) {
    return sessions.put(handle, replacement.apply(session));
  }

  @Override
  public Object get(Object handle) {
    return sessions.get(handle);
  }

  @Override
  public Object remove(Object handle) {
    return sessions.remove(handle);
  }

  @Override
  public boolean containsKey(Object handle) {
    return sessions.containsKey(handle);
  }

  @Override
  public Set<Entry<Object, Object>> entrySet() {
    return sessions.entrySet();
  }
}
