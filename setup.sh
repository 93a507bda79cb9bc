#!/usr/bin/env bash
# All set-up of a fresh machine: Java and Maven, the Python environment in .venv, stubs, the plugin jar, the `lakeward` command.
# Does nothing that was done already. Run by `make setup`.
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
  [ -x .venv/bin/python ] && return
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

stamp_of() { cat "$@" | sha256sum | cut -d' ' -f1; }

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
  .venv/bin/uv pip install -q --python .venv/bin/python --require-hashes -r requirements.lock
  echo "$want" >"$stamp"
}

ensure_project() {
  local stamp=.venv/.lakeward-project want
  want=$(stamp_of pyproject.toml hatch_build.py catalog/pom.xml $(find proto catalog/src -type f | LC_ALL=C sort))
  if [ "$(cat "$stamp" 2>/dev/null)" = "$want" ] && [ -f tiering/rpc/v1/status_pb2.py ] && [ -f sys_tables/plugin/lakeward-spark-plugin.jar ]; then
    return
  fi
  say "generating stubs and building the Spark plugin"
  .venv/bin/uv pip install -q --python .venv/bin/python --no-deps --no-build-isolation --reinstall-package lakeward -e .
  echo "$want" >"$stamp"
}

ensure_java
ensure_venv
ensure_packages
ensure_project
