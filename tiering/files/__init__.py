"""Files on a local disk: durable, private, locked, and SQLite files of others; and files on HDFS."""
