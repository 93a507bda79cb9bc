#!/usr/bin/env bash
# The README's two commands as on a machine that has nothing cached: clones the last commit into a temporary folder and runs the
# given targets of make there (default: demo test; or setup, fluss-demo, ...), each with the same, at first empty, caches of pip, uv and
# Maven, and says how long each took. Settings stay those of the machine: pip's and uv's configuration, Maven's settings.xml, the
# environment. Fails too if anything was left to Ivy.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(mktemp -d "${TMPDIR:-/tmp}/lakeward-fresh.XXXXXX")
trap 'rm -rf "$folder"' EXIT
git clone -q --no-hardlinks . "$folder/clone"

export PIP_CACHE_DIR="$folder/pip" UV_CACHE_DIR="$folder/uv"
# Java takes the home folder from the user, not from HOME: each cache is named.
export MAVEN_OPTS="${MAVEN_OPTS:-} -Dmaven.repo.local=$folder/maven"
export SPARK_SUBMIT_OPTS="${SPARK_SUBMIT_OPTS:--XX:TieredStopAtLevel=1 -XX:+UseSerialGC} -Divy.home=$folder/ivy"
unset LAKEWARD_JARS VIRTUAL_ENV PYTHONPATH SPARK_HOME

[ $# -gt 0 ] || set -- demo test
for target in "$@"; do
  printf 'test-fresh: make %s\n' "$target" >&2
  SECONDS=0
  make --no-print-directory -C "$folder/clone" "$target"
  printf 'test-fresh: make %s took %d s\n' "$target" "$SECONDS" >&2
done
if [ -e "$folder/ivy" ]; then
  printf 'test-fresh: Spark fetched jars with Ivy: they are to be fetched by `make setup` and named with spark.jars\n' >&2
  exit 1
fi
printf 'test-fresh: passed\n' >&2
