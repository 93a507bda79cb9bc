"""Works with files on a local disk: durable, private and locked files, and SQLite files from other programs. Also files on HDFS."""
