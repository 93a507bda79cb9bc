package io.lakeward.testing;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.InternalArray;
import org.apache.paimon.data.InternalMap;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.options.Options;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.types.ArrayType;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.MapType;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.JsonSerdeUtil;
import org.apache.paimon.utils.TypeUtils;

/**
 * Paimon's own reader: each line of standard input is a question about a table in JSON, each line of standard output the answer: {"fields":
 * [...], "rows": [[...], ...]}, fields as a schema file has them, or {"error": "..."}. Numbers that JSON does not have are text; bytes are
 * in base64; dates are days, and times microseconds. {"compact": table, "buckets": number} writes its files as one a bucket.
 */
public final class PaimonQuestions {
  private static final ObjectMapper JSON = new ObjectMapper();

  private PaimonQuestions() {}

  /** Argument: the folder of the warehouse. */
  public static void main(String[] arguments) throws Exception {
    Options options = new Options();
    options.set("warehouse", arguments[0]);
    PrintStream answers = new PrintStream(System.out, true, "UTF-8");
    try (Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(options))) {
      BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        Map<String, Object> answer;
        try {
          JsonNode request = JSON.readTree(line);
          answer = request.has("compact") ? compact(catalog, request) : answer(catalog, request);
        } catch (Exception error) {
          answer = Collections.singletonMap("error", error.toString());
        }
        answers.println(JSON.writeValueAsString(answer));
      }
    }
  }

  private static Map<String, Object> answer(Catalog catalog, JsonNode question) throws Exception {
    Table table = catalog.getTable(Identifier.fromString(question.get("table").asText()));
    if (!question.get("snapshot_id").isNull()) {
      // The columns of that time: a copy of the table keeps today's.
      table = table.copy(Collections.singletonMap("scan.snapshot-id", question.get("snapshot_id").asText()));
    }
    RowType all = table.rowType();
    List<DataField> fields = new ArrayList<>();
    for (JsonNode name : question.get("columns")) {
      fields.add(all.getField(name.asText()));
    }
    RowType shown = new RowType(fields);
    ReadBuilder builder = table.newReadBuilder().withReadType(shown);
    JsonNode condition = question.get("condition");
    if (!condition.isNull()) {
      int place = all.getFieldIndex(condition.get("column").asText());
      Object value = TypeUtils.castFromString(condition.get("text").asText(), all.getTypeAt(place));
      builder = builder.withFilter(new PredicateBuilder(all).equal(place, value));
    }
    List<Object> rows = new ArrayList<>();
    // Without `executeFilter` rows that do not meet the condition come too.
    try (RecordReader<InternalRow> reader = builder.newRead().executeFilter().createReader(builder.newScan().plan())) {
      reader.forEachRemaining(row -> rows.add(plain(row, shown)));
    }
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("fields", JSON.readTree(JsonSerdeUtil.toJson(shown)).get("fields"));
    answer.put("rows", rows);
    return answer;
  }

  private static Map<String, Object> compact(Catalog catalog, JsonNode request) throws Exception {
    BatchWriteBuilder builder = catalog.getTable(Identifier.fromString(request.get("compact").asText())).newBatchWriteBuilder();
    try (BatchTableWrite write = builder.newWrite();
        BatchTableCommit commit = builder.newCommit();
        IOManager files = IOManager.create(System.getProperty("java.io.tmpdir"))) {
      write.withIOManager(files);
      for (int bucket = 0; bucket < request.get("buckets").asInt(); bucket++) {
        write.compact(BinaryRow.EMPTY_ROW, bucket, true);
      }
      commit.commit(write.prepareCommit());
    }
    return Collections.emptyMap();
  }

  private static List<Object> plain(InternalRow row, RowType type) {
    List<Object> values = new ArrayList<>();
    for (int place = 0; place < type.getFieldCount(); place++) {
      DataType kind = type.getTypeAt(place);
      values.add(plain(InternalRow.createFieldGetter(kind, place).getFieldOrNull(row), kind));
    }
    return values;
  }

  private static List<Object> plain(InternalArray array, DataType type) {
    InternalArray.ElementGetter getter = InternalArray.createElementGetter(type);
    List<Object> values = new ArrayList<>();
    for (int place = 0; place < array.size(); place++) {
      values.add(plain(getter.getElementOrNull(array, place), type));
    }
    return values;
  }

  private static Object plain(Object value, DataType type) {
    if (value == null) {
      return null;
    }
    switch (type.getTypeRoot()) {
      case CHAR:
      case VARCHAR:
      case FLOAT:
      case DOUBLE:
        return value.toString();
      case DECIMAL:
        return ((Decimal) value).toBigDecimal().toPlainString();
      case BINARY:
      case VARBINARY:
        return Base64.getEncoder().encodeToString((byte[]) value);
      case TIMESTAMP_WITHOUT_TIME_ZONE:
      case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
        return ((Timestamp) value).toMicros();
      case ARRAY:
        return plain((InternalArray) value, ((ArrayType) type).getElementType());
      case MAP:
        InternalMap map = (InternalMap) value;
        List<Object> keys = plain(map.keyArray(), ((MapType) type).getKeyType());
        List<Object> values = plain(map.valueArray(), ((MapType) type).getValueType());
        List<Object> entries = new ArrayList<>();
        for (int place = 0; place < keys.size(); place++) {
          List<Object> entry = new ArrayList<>();
          entry.add(keys.get(place));
          entry.add(values.get(place));
          entries.add(entry);
        }
        return entries;
      case ROW:
        return plain((InternalRow) value, (RowType) type);
      default:
        return value;
    }
  }
}
