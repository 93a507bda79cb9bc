package io.lakeward.spark.thrift;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.sql.Types;
import org.apache.spark.sql.types.DataType;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class JdbcTypeTest {

  @ParameterizedTest
  @CsvSource({
    "tinyint, TINYINT, 3, 0, 10",
    "smallint, SMALLINT, 5, 0, 10",
    "int, INTEGER, 10, 0, 10",
    "bigint, BIGINT, 19, 0, 10",
    "float, FLOAT, 7, 7, 10",
    "double, DOUBLE, 15, 15, 10",
    "'decimal(10,2)', DECIMAL, 10, 2, 10",
    "string, VARCHAR, 2147483647, , ",
    "varchar(20), VARCHAR, 20, , ",
    "char(5), CHAR, 5, , ",
    "binary, BINARY, 2147483647, , ",
    "boolean, BOOLEAN, 1, , ",
    "date, DATE, 10, , ",
    "timestamp, TIMESTAMP, 26, 6, ",
    "timestamp_ntz, TIMESTAMP, 26, 6, ",
    "array<int>, ARRAY, , , ",
    "struct<a:int>, STRUCT, , , ",
    "'map<string,int>', JAVA_OBJECT, , , ",
    "interval day, OTHER, , , ",
  })
  void of(String ddl, String number, Integer size, Integer scale, Integer radix)
      throws ReflectiveOperationException {
    int expected = Types.class.getField(number).getInt(null);
    JdbcType type = JdbcType.of(DataType.fromDDL(ddl));
    assertEquals(new JdbcType(expected, size, scale, radix), type);
  }
}
