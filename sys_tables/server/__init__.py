"""The gRPC services of `sys`: `service` describes and reads for the Spark plugin, `calls` performs all CALLs."""
