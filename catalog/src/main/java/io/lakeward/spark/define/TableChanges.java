package io.lakeward.spark.define;

import io.lakeward.rpc.v1.AddColumn;
import io.lakeward.rpc.v1.ChangeColumnComment;
import io.lakeward.rpc.v1.ChangeColumnNullability;
import io.lakeward.rpc.v1.ChangeColumnType;
import io.lakeward.rpc.v1.ColumnPosition;
import io.lakeward.rpc.v1.MoveColumn;
import io.lakeward.rpc.v1.RenameColumn;
import io.lakeward.rpc.v1.SetProperty;
import io.lakeward.spark.error.LakewardException;
import java.util.Arrays;
import org.apache.spark.sql.connector.catalog.TableChange;

/** Writes the changes of an ALTER TABLE for the service. */
final class TableChanges {

  private TableChanges() {}

  /** Throws LakewardException for a change that no message has, such as a default value. */
  static io.lakeward.rpc.v1.TableChange message(TableChange change) throws LakewardException {
    io.lakeward.rpc.v1.TableChange.Builder message =
        io.lakeward.rpc.v1.TableChange.newBuilder();
    if (change instanceof TableChange.SetProperty set) {
      message.setSetProperty(
          SetProperty.newBuilder().setName(set.property()).setValue(set.value()));
    } else if (change instanceof TableChange.RemoveProperty remove) {
      message.setRemoveProperty(remove.property());
    } else if (change instanceof TableChange.AddColumn add) {
      message.setAddColumn(added(add));
    } else if (change instanceof TableChange.RenameColumn rename) {
      message.setRenameColumn(
          RenameColumn.newBuilder()
              .setColumn(Columns.path(rename.fieldNames()))
              .setNewName(rename.newName()));
    } else if (change instanceof TableChange.DeleteColumn drop) {
      message.setDropColumn(Columns.path(drop.fieldNames()));
    } else if (change instanceof TableChange.UpdateColumnType type) {
      message.setChangeType(
          ChangeColumnType.newBuilder()
              .setColumn(Columns.path(type.fieldNames()))
              .setTypeJson(Columns.json(last(type.fieldNames()), type.newDataType(), true, null)));
    } else if (change instanceof TableChange.UpdateColumnComment comment) {
      message.setChangeComment(
          ChangeColumnComment.newBuilder()
              .setColumn(Columns.path(comment.fieldNames()))
              .setComment(comment.newComment()));
    } else if (change instanceof TableChange.UpdateColumnNullability nullability) {
      message.setChangeNullability(
          ChangeColumnNullability.newBuilder()
              .setColumn(Columns.path(nullability.fieldNames()))
              .setNullable(nullability.nullable()));
    } else if (change instanceof TableChange.UpdateColumnPosition move) {
      message.setMoveColumn(
          MoveColumn.newBuilder()
              .setColumn(Columns.path(move.fieldNames()))
              .setPosition(position(move.position())));
    } else {
      throw new LakewardException(
          "tables of the streaming store have no default values, constraints or clustering. Leave"
              + " that clause out. The primary key and the buckets are those of CREATE TABLE");
    }
    return message.build();
  }

  private static AddColumn added(TableChange.AddColumn add) throws LakewardException {
    String[] names = add.fieldNames();
    if (add.defaultValue() != null) {
      throw new LakewardException(
          "the column %s has a default value, which no table of this catalog can have"
              .formatted(String.join(".", names)));
    }
    AddColumn.Builder message =
        AddColumn.newBuilder()
            .setParent(Columns.path(Arrays.copyOf(names, names.length - 1)))
            .setColumnJson(
                Columns.json(last(names), add.dataType(), add.isNullable(), add.comment()));
    if (add.position() != null) {
      message.setPosition(position(add.position()));
    }
    return message.build();
  }

  private static ColumnPosition position(TableChange.ColumnPosition position) {
    ColumnPosition.Builder message = ColumnPosition.newBuilder();
    if (position instanceof TableChange.After after) {
      message.setAfter(after.column());
    }
    return message.build();
  }

  private static String last(String[] names) {
    return names[names.length - 1];
  }
}
