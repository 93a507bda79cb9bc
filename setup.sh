#!/usr/bin/env bash
# All set-up of a fresh machine: Java and Maven, the Python environment in .venv, stubs, the plugin jar, the `lakeward` command, and
# everything that demo, benchmarks and `make test` would else download; `./setup.sh all-tests` also what `make test-all` alone needs.
# Does nothing that was done already. Run by `make setup` and `make test-setup`.
# Of two that run at once the second waits; what an interrupted one left half done is done again.
set -euo pipefail
cd "$(dirname "$0")"

say() { printf 'setup: %s\n' "$*" >&2; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

apt_install() { # apt_install "what for" package...
  local reason=$1; shift
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    die "$reason: install $* and run this again"
  fi
  say "installing $*"
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null ||
    die "$reason: apt-get could not install $*"
}

alone() { # alone arguments...: runs this script again with them, holding a lock on itself until it ends
  local python
  python=$(find_python)
  LAKEWARD_SETUP_ALONE=1 exec "$python" -c '
import fcntl, os, sys
held = os.open("setup.sh", os.O_RDONLY)
try:
    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("setup: waiting for another setup in this folder", file=sys.stderr)
    fcntl.flock(held, fcntl.LOCK_EX)
os.dup2(held, 9)
os.close(held)
os.execv("setup.sh", ["setup.sh", *sys.argv[1:]])' "$@"
}

ensure_java() {
  local javac=javac major
  [ -n "${JAVA_HOME:-}" ] && javac="$JAVA_HOME/bin/javac"
  major=$("$javac" -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p')
  if [ "${major:-0}" -lt 17 ]; then
    local jdk=openjdk-17-jdk-headless
    apt-cache show "$jdk" >/dev/null 2>&1 || ! apt-cache show openjdk-21-jdk-headless >/dev/null 2>&1 || jdk=openjdk-21-jdk-headless
    apt_install "no JDK 17 or newer was found" "$jdk"
  fi
  command -v mvn >/dev/null || apt_install "Maven was not found" maven
}

# Tests run a PostgreSQL of their own; everything else does without.
ensure_postgresql() {
  command -v pg_ctl >/dev/null || ls /usr/lib/postgresql/*/bin/pg_ctl >/dev/null 2>&1 && return
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt_install "PostgreSQL was not found" postgresql
  else
    say "PostgreSQL was not found: tests that need one will fail until it is installed (Debian: postgresql)"
  fi
}

# The browser of the console's tests, which fail without it.
ensure_chromium() {
  command -v chromium >/dev/null && return
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt_install "Chromium was not found" chromium
  else
    say "Chromium was not found: tests of the console in a browser will fail until it is installed (Debian: chromium)"
  fi
}

# Clocks and syncs that fail, for processes of the tests; those tests are skipped without them.
ensure_fault_libraries() {
  ls /usr/lib/fiu/fiu_posix_preload.so /usr/lib/*/faketime/libfaketime.so.1 >/dev/null 2>&1 && command -v fiu-ctrl >/dev/null && return
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt_install "faketime and libfiu were not found" faketime fiu-utils libfiu0
  else
    say "faketime and libfiu were not found: tests that need them are skipped (Debian: faketime fiu-utils libfiu0)"
  fi
}

find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3 python3.11 python3.12 python3.13; do
    [ -n "$candidate" ] || continue
    if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  die "no Python 3.11, 3.12 or 3.13 was found: install one (Debian: python3 python3-venv) or name it with PYTHON=..."
}

ensure_venv() {
  .venv/bin/python -c 'import pip' 2>/dev/null && return
  rm -rf .venv
  local python
  python=$(find_python)
  say "making .venv with $("$python" --version)"
  if ! "$python" -m venv .venv >/dev/null 2>&1; then
    rm -rf .venv
    apt_install "python3 has no venv module" python3-venv
    "$python" -m venv .venv
  fi
}

# The lines of requirements.lock that pin one package, with its hashes.
locked() { awk -v name="$1" '/^[A-Za-z0-9]/ { found = index($0, name "==") == 1 } found && !/^ +#/' requirements.lock; }

stamp_of() { cat "$@" | .venv/bin/python -c 'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())'; }

ensure_packages() {
  local stamp=.venv/.lakeward-packages want
  want=$(stamp_of requirements.lock)
  [ "$(cat "$stamp" 2>/dev/null)" = "$want" ] && return
  say "installing the Python packages of requirements.lock"
  local bootstrap
  bootstrap=$(mktemp)
  locked uv >"$bootstrap"
  .venv/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r "$bootstrap"
  rm -f "$bootstrap"
  # With byte code: where PYTHONDONTWRITEBYTECODE is set, every process would else compile some thousand modules, 2 s of a core.
  .venv/bin/uv pip install -q --compile-bytecode --python .venv/bin/python --require-hashes -r requirements.lock
  echo "$want" >"$stamp"
}

ensure_project() {
  local stamp=.venv/.lakeward-project want
  want=$(stamp_of pyproject.toml hatch_build.py catalog/pom.xml catalog/*.py catalog/*.sha256 $(find proto catalog/src -type f | LC_ALL=C sort))
  if [ "$(cat "$stamp" 2>/dev/null)" = "$want" ] && [ -f tiering/rpc/v1/status_pb2.py ] && [ -f tiering/rpc/fluss/fluss_pb2.py ] && [ -f tiering/jars/lakeward-spark-plugin.jar ] &&
    [ -f tiering/jars/lakeward-spark-plugin-3.5.jar ] && [ -f sys_tables/console/static/vendor/uPlot.LICENSE ]; then
    return
  fi
  say "generating stubs, building the Spark plugins and fetching the libraries of the console"
  .venv/bin/uv pip install -q --python .venv/bin/python --no-deps --no-build-isolation --reinstall-package lakeward -e .
  echo "$want" >"$stamp"
}

# Compiles what has changed since: as for the packages.
ensure_bytecode() { .venv/bin/python -m compileall -q tiering sys_tables; }

# What `make plugin-test` needs: it runs Maven offline. Compiles the plugin's tests, and runs none.
ensure_plugin_tests() {
  local stamp=.venv/.lakeward-plugin-tests want
  want=$(stamp_of catalog/pom.xml catalog/dependencies.sha256)
  [ "$(cat "$stamp" 2>/dev/null)" = "$want" ] && return
  say "fetching what the plugin's tests need"
  mvn -C -q -B -f catalog/pom.xml -Dpython="$PWD/.venv/bin/python" -Ptests -DskipTests test
  echo "$want" >"$stamp"
}

# A jar that is there was checked when it came.
ensure_jars() {
  .venv/bin/python -P -c '
import sys
from tiering.cli.maven_jars import jars_folder
from tiering.cli.spark.jars import SPARK_JARS
sys.exit(not all((jars_folder() / jar.file_name).is_file() for jar in SPARK_JARS))' && return
  say "fetching the jars with which Spark reads the lake"
  .venv/bin/lakeward fetch-jars >/dev/null
}

# The servers of a real Fluss cluster for tests and demo, and the lake plugin of the tests, which is compiled here.
ensure_fluss_server() {
  .venv/bin/python -P -c '
import sys
from tiering.cli.fluss_server.jars import missing_jars
sys.exit(bool(missing_jars()))' || {
    say "fetching a Fluss server for tests and demo"
    .venv/bin/lakeward fetch-jars --fluss-server >/dev/null
  }
  PYTHONPATH=.:tests .venv/bin/python -m support.clusters.fluss_plugin
}

# Fluss's plugin for Paimon, with which a cluster of the tests makes its lake tables.
ensure_fluss_paimon() { PYTHONPATH=.:tests .venv/bin/python -m support.fluss_paimon.plugin; }

# The client of Fluss 1.0, whose servers are not published, and the sources of the tests that call it.
ensure_fluss_client() { PYTHONPATH=.:tests .venv/bin/python -m support.fluss_client.client_jar; }

# The HDFS of the tests.
ensure_hdfs() { PYTHONPATH=.:tests .venv/bin/python -m support.hadoop.hdfs_server; }

# The S3 server and the REST catalog of the tests, and with what Spark reads from S3.
ensure_object_store() {
  PYTHONPATH=.:tests .venv/bin/python -m support.object_store.jars
  .venv/bin/lakeward fetch-jars --s3 >/dev/null
}

# What Spark loads whenever it starts, in one file.
ensure_spark_classes() { PYTHONPATH=.:tests .venv/bin/python -m support.spark.class_archive; }

# Other versions of Spark, on which the tests run the plugin.
ensure_sparks() { PYTHONPATH=.:tests .venv/bin/python -m support.spark_versions.installations; }

# Other readers of lake tables, which the tests compare: in environments of their own, and a Go program around iceberg-go.
ensure_readers() { PYTHONPATH=.:tests .venv/bin/python -m support.readers.kinds; }

# dbt, in an environment of its own as well: it needs an older protobuf.
ensure_dbt() { PYTHONPATH=.:tests .venv/bin/python -m support.dbt.environment; }

# Airflow and Dagster, each in an environment of its own. Airflow's has OpenLineage's client, too.
ensure_orchestrators() { PYTHONPATH=.:tests .venv/bin/python -m support.orchestrators.environment; }

# The libraries of Superset: they need an older SQLAlchemy.
ensure_superset() { PYTHONPATH=.:tests .venv/bin/python -m support.superset.environment; }

# The program that checks histories of tierers for linearizability, and the Go toolchain that builds it.
ensure_history_checker() { PYTHONPATH=.:tests .venv/bin/python -m support.histories.checker; }

[ $# = 0 ] || [ "$*" = all-tests ] || die "usage: ./setup.sh [all-tests]"
[ -n "${LAKEWARD_SETUP_ALONE:-}" ] || alone "$@"
unset LAKEWARD_SETUP_ALONE
ensure_java
ensure_venv
ensure_packages
ensure_project
ensure_bytecode
ensure_jars
ensure_fluss_server
if [ "${1:-}" = all-tests ]; then
  # Two at once: one waits for Maven's repository, the other one for PyPI and the Go proxy.
  # It does not inherit the lock (9): after a Ctrl-C it may outlive this script.
  { ensure_readers && ensure_dbt && ensure_superset && ensure_orchestrators && ensure_history_checker; } 9>&- &
  others=$!
  trap 'kill "$others" 2>/dev/null || true' EXIT
  ensure_postgresql
  ensure_fault_libraries
  ensure_chromium
  ensure_plugin_tests
  ensure_fluss_paimon
  ensure_fluss_client
  ensure_hdfs
  ensure_object_store
  ensure_spark_classes
  ensure_sparks
  wait "$others"
  trap - EXIT
fi
