# The two commands of the README are `make demo` and `make test`; `make setup` is their common first part.
.PHONY: setup test-setup demo fluss-demo test test-all test-fresh check unit integration plugin-test soak clean

VENV := .venv/bin
# One more than cores: tests wait for the processes and threads that they start. `make unit WORKERS=0` runs one after the other.
WORKERS := 3
PYTEST_ARGS :=
PYSPARK_JARS = $(shell $(VENV)/python -c "from importlib.util import find_spec; print(find_spec('pyspark').submodule_search_locations[0])")/jars
STAGES := PYTHONPATH=.:tests $(VENV)/python -m support.stages

setup:
	@./setup.sh

# The same, and what `make test-all` alone needs: other readers of lake tables, dbt, libraries of Superset, Airflow, Dagster, Fluss's plugin for Paimon, the client of Fluss 1.0, an HDFS, an S3 server, PostgreSQL,
# other versions of Spark, Chromium, faketime and libfiu, the plugin's test libraries, and a checker of histories with the Go toolchain that builds it.
test-setup:
	@./setup.sh all-tests

# KEEP=1 leaves the service and its console running at the end, and says how to stop them.
KEEP :=
demo: setup
	@$(VENV)/lakeward demo $(if $(KEEP),--keep)

# The same job on a real Apache Fluss cluster, which is booted for it on this machine and stopped again.
fluss-demo: setup
	@$(VENV)/lakeward demo --fluss

# At most ten minutes on two cores with its set-up: unit tests that take seconds, and one journey each through the real thing
# (tests/support/stages/make_test.py names them). All stages run; the verdict is the last line.
test: setup
	@$(STAGES) make-test

# All other tests that CI runs.
test-all: test-setup
	@$(STAGES) make-test-all --workers $(WORKERS)

# Before a release: the README's commands in a clone of the last commit, with nothing cached. `FRESH=setup` runs the first part alone, `FRESH=fluss-demo` times that
# demo with empty caches.
FRESH := demo test
test-fresh:
	@.ci/test-fresh.sh $(FRESH)

# Folders without a unit test: nothing of them is read.
STORIES := behaviours cli faults integration packaging validate
unit: test-setup
	$(VENV)/pytest -n $(WORKERS) $(PYTEST_ARGS) -m "not integration" $(STORIES:%=--ignore=tests/%)

integration: test-setup
	$(VENV)/pytest -n $(WORKERS) $(PYTEST_ARGS) -m integration

# Simulated deployments, stories on real files, the model, random users, and what CI takes in turn, for long; tests/faults/README.md lists the faults.
SEEDS := 10000
soak: test-setup
	@PYTHONPATH=.:tests $(VENV)/python -m faults.reliability.soak --seeds $(SEEDS) --counts soak-counts.txt

plugin-test: test-setup
	@mvn -o -C -q -B -f catalog/pom.xml -Dpython=$(CURDIR)/$(VENV)/python -Dpyspark.jars=$(PYSPARK_JARS) test -DskipTests=false

check: setup
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/mypy
	$(VENV)/lint-imports

clean:
	rm -rf .venv catalog/target tiering/jars/*.jar tiering/rpc sys_tables/rpc sys_tables/console/static/vendor
