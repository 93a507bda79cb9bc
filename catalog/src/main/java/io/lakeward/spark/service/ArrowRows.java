package io.lakeward.spark.service;

import io.grpc.StatusRuntimeException;
import io.lakeward.spark.error.LakewardException;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.OutOfMemoryException;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.compression.NoCompressionCodec;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.arrow.vector.ipc.message.MessageChannelReader;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.validate.ValidateVectorBufferVisitor;
import org.apache.arrow.vector.validate.ValidateVectorDataVisitor;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.Function1;

/**
 * Converts Arrow IPC streams of the service to Spark's schemas and rows, with Spark's own Arrow.
 */
public final class ArrowRows {

  /** Key of a column's comment in the metadata of its field (proto SystemTable.schema). */
  private static final String COMMENT = "comment";

  /** Most idle projections: a few per table and statement in use. Each has one row in memory. */
  private static final int PROJECTIONS = 100;

  /**
   * Spark compiles a projection once but generates its code anew for each that is created, which
   * takes longer for a broad table than reading a thousand rows.
   */
  private static final ReusePool<StructType, Function1<InternalRow, InternalRow>> TO_HEAP =
      new ReusePool<>(PROJECTIONS, UnsafeProjection::create);

  /** Bytes on the heap for each column of a row, NULL or not, and once more for the row. */
  private static final long ROW_WORD_BYTES = 8;

  /** Memory for buffers beside a schema, which needs none. */
  private static final long MAX_SCHEMA_BYTES = 1 << 20;

  private ArrowRows() {}

  /**
   * The schema that an IPC stream begins with, with the columns' comments. Throws LakewardException
   * for a type that Spark lacks.
   */
  public static StructType schema(String table, byte[] stream) throws LakewardException {
    try (BufferAllocator allocator = allocator(MAX_SCHEMA_BYTES);
        ArrowStreamReader reader = reader(new ByteArrayInputStream(stream), allocator)) {
      List<StructField> fields = new ArrayList<>();
      for (Field field : reader.getVectorSchemaRoot().getSchema().getFields()) {
        fields.add(structField(table, field));
      }
      return DataTypes.createStructType(fields);
    } catch (IOException | RuntimeException | StackOverflowError error) {
      throw new LakewardException(
          "the service sent no readable schema of " + table + ": " + error.getMessage(), error);
    }
  }

  private static StructField structField(String table, Field field) throws LakewardException {
    try {
      return withComment(
          DataTypes.createStructField(
              field.getName(), ArrowUtils.fromArrowField(field), field.isNullable()),
          field);
    } catch (RuntimeException unsupported) {
      throw new LakewardException(
          "the column %s of %s has the Arrow type %s, which Spark cannot read"
              .formatted(field.getName(), table, field.getType()),
          unsupported);
    }
  }

  /** {@code plain} with the comments of {@code field}, also of the fields nested in it. */
  private static StructField withComment(StructField plain, Field field) {
    StructField nested =
        DataTypes.createStructField(
            plain.name(), withComments(plain.dataType(), field), plain.nullable());
    String comment = field.getMetadata().get(COMMENT);
    return comment == null ? nested : nested.withComment(comment);
  }

  private static DataType withComments(DataType type, Field field) {
    List<Field> children = field.getChildren();
    if (type instanceof StructType struct) {
      StructField[] fields = struct.fields().clone();
      for (int i = 0; i < fields.length; i++) {
        fields[i] = withComment(fields[i], children.get(i));
      }
      return new StructType(fields);
    }
    if (type instanceof ArrayType array) {
      return DataTypes.createArrayType(
          withComments(array.elementType(), children.get(0)), array.containsNull());
    }
    if (type instanceof MapType map) {
      List<Field> entry = children.get(0).getChildren();
      return DataTypes.createMapType(
          withComments(map.keyType(), entry.get(0)),
          withComments(map.valueType(), entry.get(1)),
          map.valueContainsNull());
    }
    return type;
  }

  /**
   * All rows of an IPC stream, with their schema. A column of Arrow's null type, which has only
   * NULLs, gets the type of the column at the same position in {@code expected}. Throws
   * LakewardException for an answer above the limits or in another format, and
   * StatusRuntimeException for a failed call.
   */
  static RowsScan read(InputStream stream, StructType expected, ReadLimits limits)
      throws LakewardException {
    try (BufferAllocator allocator = allocator(limits.maxBytes());
        ArrowStreamReader reader = reader(stream, allocator)) {
      VectorSchemaRoot root = reader.getVectorSchemaRoot();
      StructType schema = typed(ArrowUtils.fromArrowSchema(root.getSchema()), expected);
      ColumnarBatch batch =
          new ColumnarBatch(
              root.getFieldVectors().stream()
                  .map(ArrowColumnVector::new)
                  .toArray(ColumnVector[]::new));
      List<InternalRow> rows = new ArrayList<>();
      // The reader frees the vectors' memory, so a projection copies each row onto the heap. A
      // projection that failed is not given back.
      Function1<InternalRow, InternalRow> toHeap = TO_HEAP.take(schema);
      while (reader.loadNextBatch()) {
        long count = rows.size() + (long) root.getRowCount();
        limits.checkRows(count);
        limits.checkBytes(reader.bytesRead() + count * (schema.length() + 1) * ROW_WORD_BYTES);
        // Spark reads strings by address: offsets beyond the buffers would crash the JVM.
        validate(root);
        batch.setNumRows(root.getRowCount());
        for (Iterator<InternalRow> more = batch.rowIterator(); more.hasNext(); ) {
          rows.add(toHeap.apply(more.next()).copy());
        }
      }
      TO_HEAP.giveBack(schema, toHeap);
      return new RowsScan(schema, rows.toArray(InternalRow[]::new));
    } catch (OutOfMemoryException full) { // of this allocator, not of the JVM
      throw limits.tooManyBytes();
    } catch (StatusRuntimeException failed) {
      throw failed;
    } catch (IOException | RuntimeException | StackOverflowError error) {
      throw new LakewardException(
          "the service's answer broke off or is no Arrow stream: " + error.getMessage(), error);
    }
  }

  /**
   * Validates buffers and offsets of every vector. Arrow's own `validateFull` also compares types,
   * which the reader has made from the schema, and takes every map for a wrong type.
   */
  private static void validate(VectorSchemaRoot root) {
    for (FieldVector vector : root.getFieldVectors()) {
      vector.accept(new ValidateVectorBufferVisitor(), null);
      vector.accept(new ValidateVectorDataVisitor(), null);
    }
  }

  private static StructType typed(StructType schema, StructType expected) {
    StructField[] fields = schema.fields().clone();
    for (int i = 0; i < Math.min(fields.length, expected.length()); i++) {
      StructField field = expected.fields()[i];
      if (fields[i].dataType() == DataTypes.NullType && fields[i].name().equals(field.name())) {
        fields[i] =
            DataTypes.createStructField(field.name(), field.dataType(), fields[i].nullable());
      }
    }
    return new StructType(fields);
  }

  /** A row of no columns. */
  public static InternalRow withoutColumns() {
    StructType none = new StructType();
    Function1<InternalRow, InternalRow> toHeap = TO_HEAP.take(none);
    InternalRow row = toHeap.apply(InternalRow.empty()).copy();
    TO_HEAP.giveBack(none, toHeap);
    return row;
  }

  /** A reader that refuses oversized metadata and compressed bodies. */
  private static ArrowStreamReader reader(InputStream stream, BufferAllocator allocator) {
    return new ArrowStreamReader(
        new MessageChannelReader(new LimitedChannel(stream), allocator),
        allocator,
        NoCompressionCodec.Factory.INSTANCE);
  }

  private static BufferAllocator allocator(long limit) {
    return ArrowUtils.rootAllocator().newChildAllocator("lakeward", 0, limit);
  }
}
