"""A Spark of any version executes statements: a program that needs that Spark's own Python files, and nothing of Lakeward.

It reads `{"properties": {...}, "statements": [...]}` from its input, and prints the JSON of a list with one answer a statement.
An answer has the columns, their types and the rows as texts, or else the error's class and message.
"""

import json
import sys

from pyspark.sql import SparkSession


def answer(spark, statement):
    """Returns the answer to one statement."""
    try:
        rows = spark.sql(statement)
        names = rows.columns
        types = [field.dataType.simpleString() for field in rows.schema]
        return {"columns": names, "types": types, "rows": [[None if cell is None else str(cell) for cell in row] for row in rows.collect()]}
    except Exception as error:
        return {"error": str(error), "class": type(error).__name__}


def main():
    request = json.load(sys.stdin)
    builder = SparkSession.builder.master("local[1]")
    for name, value in request["properties"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    answers = [answer(spark, statement) for statement in request["statements"]]
    spark.stop()
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
