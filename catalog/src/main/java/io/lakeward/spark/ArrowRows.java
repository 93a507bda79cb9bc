package io.lakeward.spark;

import io.grpc.StatusRuntimeException;
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
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.Function1;

/** Arrow IPC, as the service sends it, to Spark's schemas and rows; with Spark's own Arrow. */
final class ArrowRows {

  /** Key of a column's comment in the metadata of its field (proto SystemTable.schema). */
  private static final String COMMENT = "comment";

  /** A few for each table and question in use; each holds a row's bytes. */
  private static final int PROJECTIONS = 100;

  /**
   * Spark compiles a projection once, but writes its code anew for each that is created: for a
   * broad table that is longer than reading a thousand rows.
   */
  private static final Spares<StructType, Function1<InternalRow, InternalRow>> TO_HEAP =
      new Spares<>(PROJECTIONS, UnsafeProjection::create);

  /** Of a row on the heap: one for each column, NULL or not, and one more; texts come on top. */
  private static final long ROW_WORD_BYTES = 8;

  /** Room for what a schema's stream may bring beside it: nothing of use. */
  private static final long MAX_SCHEMA_BYTES = 1 << 20;

  private ArrowRows() {}

  /**
   * The schema that an IPC stream begins with, with the columns' comments. Throws LakewardException
   * for a type that Spark lacks.
   */
  static StructType schema(String table, byte[] stream) throws LakewardException {
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
      StructField plain =
          DataTypes.createStructField(
              field.getName(), ArrowUtils.fromArrowField(field), field.isNullable());
      String comment = field.getMetadata().get(COMMENT);
      return comment == null ? plain : plain.withComment(comment);
    } catch (RuntimeException unsupported) {
      throw new LakewardException(
          "the column "
              + field.getName()
              + " of "
              + table
              + " has the Arrow type "
              + field.getType()
              + ", which Spark cannot read",
          unsupported);
    }
  }

  /**
   * All rows of an IPC stream, with their schema. A column that came with Arrow's null type, since
   * it holds only NULLs, has the type of the column at its place in {@code wanted}. Throws
   * LakewardException for more than the limits, and for what is no such stream; what the stream
   * itself throws for a failed call passes through.
   */
  static RowsScan read(InputStream stream, StructType wanted, ReadLimits limits)
      throws LakewardException {
    try (BufferAllocator allocator = allocator(limits.maxBytes());
        ArrowStreamReader reader = reader(stream, allocator)) {
      VectorSchemaRoot root = reader.getVectorSchemaRoot();
      StructType schema = typed(ArrowUtils.fromArrowSchema(root.getSchema()), wanted);
      ColumnarBatch batch =
          new ColumnarBatch(
              root.getFieldVectors().stream()
                  .map(ArrowColumnVector::new)
                  .toArray(ColumnVector[]::new));
      List<InternalRow> rows = new ArrayList<>();
      // The vectors' memory is Arrow's and goes with the reader: a projection copies each row onto
      // the heap. One that failed is not left for others.
      Function1<InternalRow, InternalRow> toHeap = TO_HEAP.take(schema);
      while (reader.loadNextBatch()) {
        long count = rows.size() + (long) root.getRowCount();
        limits.checkRows(count);
        limits.checkBytes(reader.bytesRead() + count * (schema.length() + 1) * ROW_WORD_BYTES);
        // Spark reads texts by their addresses: offsets beyond the buffers would end the JVM.
        validate(root);
        batch.setNumRows(root.getRowCount());
        for (Iterator<InternalRow> more = batch.rowIterator(); more.hasNext(); ) {
          rows.add(toHeap.apply(more.next()).copy());
        }
      }
      TO_HEAP.leave(schema, toHeap);
      return new RowsScan(schema, rows.toArray(InternalRow[]::new));
    } catch (OutOfMemoryException full) { // Arrow's: of this allocator
      throw limits.tooManyBytes();
    } catch (StatusRuntimeException failed) {
      throw failed;
    } catch (IOException | RuntimeException | StackOverflowError error) {
      throw new LakewardException(
          "the service's answer broke off or is no Arrow stream: " + error.getMessage(), error);
    }
  }

  /**
   * Buffers and offsets of every vector. Arrow's own `validateFull` also compares types, which the
   * reader has made from the schema, and takes every map for a wrong one.
   */
  private static void validate(VectorSchemaRoot root) {
    for (FieldVector vector : root.getFieldVectors()) {
      vector.accept(new ValidateVectorBufferVisitor(), null);
      vector.accept(new ValidateVectorDataVisitor(), null);
    }
  }

  private static StructType typed(StructType found, StructType wanted) {
    StructField[] fields = found.fields().clone();
    for (int i = 0; i < Math.min(fields.length, wanted.length()); i++) {
      StructField mine = wanted.fields()[i];
      if (fields[i].dataType() == DataTypes.NullType && fields[i].name().equals(mine.name())) {
        fields[i] = DataTypes.createStructField(mine.name(), mine.dataType(), fields[i].nullable());
      }
    }
    return new StructType(fields);
  }

  /** A row of no columns. */
  static InternalRow withoutColumns() {
    StructType none = new StructType();
    Function1<InternalRow, InternalRow> toHeap = TO_HEAP.take(none);
    InternalRow row = toHeap.apply(InternalRow.empty()).copy();
    TO_HEAP.leave(none, toHeap);
    return row;
  }

  /** Reads what it must: no more metadata than there can be, and no compressed bodies. */
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
