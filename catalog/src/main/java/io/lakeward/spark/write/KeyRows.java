package io.lakeward.spark.write;

import io.lakeward.spark.error.LakewardException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * The keys that the WHERE of a DELETE names. It must compare each key column with a value or with a
 * list of values, and nothing else.
 */
final class KeyRows {

  /** Most keys of one DELETE, which are sent with the statement. */
  private static final int MOST_KEYS = 100_000;

  private final String table;
  private final StructType key;
  private final Map<String, Set<Object>> values = new HashMap<>();

  /** {@code key}: the key columns of {@code table}. */
  private KeyRows(String table, StructType key) {
    this.table = table;
    this.key = key;
  }

  /** The keys, as rows of the key columns. Throws LakewardException for any other condition. */
  static List<InternalRow> of(String table, StructType key, Predicate[] conditions)
      throws LakewardException {
    KeyRows keys = new KeyRows(table, key);
    for (Predicate condition : conditions) {
      keys.add(condition);
    }
    return keys.rows();
  }

  private void add(Predicate condition) throws LakewardException {
    Expression[] children = condition.children();
    switch (condition.name()) {
      case "AND" -> {
        add((Predicate) children[0]);
        add((Predicate) children[1]);
      }
      case "ALWAYS_FALSE" -> {
        for (String name : key.fieldNames()) {
          values.put(name, new LinkedHashSet<>());
        }
      }
      case "=", "<=>" -> {
        boolean mirrored = children[1] instanceof NamedReference;
        narrow(column(children[mirrored ? 1 : 0], condition), List.of(children[mirrored ? 0 : 1]));
      }
      case "IN" -> narrow(column(children[0], condition), List.of(children).subList(1, children.length));
      default -> throw refusal("the condition %s is no comparison by = or IN".formatted(condition));
    }
  }

  private StructField column(Expression expression, Predicate condition) throws LakewardException {
    if (expression instanceof NamedReference reference && reference.fieldNames().length == 1) {
      String name = reference.fieldNames()[0];
      if (key.getFieldIndex(name).isDefined()) {
        return key.apply(name);
      }
      throw refusal("%s is not a key column".formatted(name));
    }
    throw refusal("the condition %s compares no key column with a value".formatted(condition));
  }

  private void narrow(StructField column, List<Expression> literals) throws LakewardException {
    Set<Object> allowed = new LinkedHashSet<>();
    for (Expression expression : literals) {
      if (!(expression instanceof Literal<?> literal)) {
        throw refusal("%s is compared with %s, which is no value".formatted(column.name(), expression));
      }
      if (literal.value() == null) {
        continue; // no key is NULL
      }
      if (!literal.dataType().sameType(column.dataType())) {
        throw refusal(
            "%s has the type %s, and it is compared with a %s"
                .formatted(column.name(), column.dataType().sql(), literal.dataType().sql()));
      }
      allowed.add(comparable(literal.value()));
    }
    values.merge(
        column.name(),
        allowed,
        (before, now) -> {
          before.retainAll(now);
          return before;
        });
  }

  /** A value that equals another one of the same content. */
  private static Object comparable(Object value) {
    return value instanceof byte[] bytes ? new Bytes(bytes) : value;
  }

  private record Bytes(byte[] bytes) {
    @Override
    public boolean equals(Object other) {
      return other instanceof Bytes that && Arrays.equals(bytes, that.bytes);
    }

    @Override
    public int hashCode() {
      return Arrays.hashCode(bytes);
    }
  }

  private List<InternalRow> rows() throws LakewardException {
    String unbound =
        Arrays.stream(key.fieldNames())
            .filter(name -> !values.containsKey(name))
            .collect(Collectors.joining(", "));
    if (!unbound.isEmpty()) {
      throw refusal("it names no value of the key column %s".formatted(unbound));
    }
    List<Object[]> rows = List.<Object[]>of(new Object[key.size()]);
    for (int place = 0; place < key.size(); place++) {
      rows = extended(rows, place, values.get(key.fields()[place].name()));
    }
    return rows.stream().<InternalRow>map(GenericInternalRow::new).toList();
  }

  private List<Object[]> extended(List<Object[]> rows, int place, Set<Object> allowed)
      throws LakewardException {
    if ((long) rows.size() * allowed.size() > MOST_KEYS) {
      throw refusal("it names more than %d keys".formatted(MOST_KEYS));
    }
    List<Object[]> longer = new ArrayList<>();
    for (Object[] row : rows) {
      for (Object value : allowed) {
        Object[] copy = row.clone();
        copy[place] = value instanceof Bytes wrapped ? wrapped.bytes() : value;
        longer.add(copy);
      }
    }
    return longer;
  }

  private LakewardException refusal(String why) {
    return new LakewardException(
        ("cannot delete from %s: rows are deleted by their keys alone, and %s. Compare each key column"
                + " (%s) with a value by =, or with several by IN, and join the comparisons by AND")
            .formatted(table, why, String.join(", ", key.fieldNames())));
  }
}
