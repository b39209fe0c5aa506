# Two commands on a machine with Python 3.11, pip and make:  make demo   make test
PYTHON ?= python3
# What MLX computes on: cpu or cuda on Linux. On a Mac both mean Metal, which the base wheel brings.
DEVICE ?= cpu
export UV_SYSTEM_CERTS := 1
TOOLS := .tools/bin
VENV := .venv/bin
# One environment; another device makes it anew.
READY := .venv/ready-$(DEVICE)
ADAPTER := server/src/dicast_server/embedded_adapter
QUESTIONS := server/src/dicast_server/calibration/questions.jsonl
PROTOS := $(sort $(shell find proto -name '*.proto'))
SERVICES := $(filter %_service.proto,$(PROTOS))
PROTOC = PATH=$(CURDIR)/$(TOOLS):$$PATH $(TOOLS)/python -m grpc_tools.protoc -Iproto

.DEFAULT_GOAL := help
.PHONY: help demo test serve check clients adapter gen released lock clean

help: ## Show the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-10s %s\n", $$1, $$2}'

demo: $(READY) ## Start the engine and the gateway, ask one request three ways, stop
	@$(VENV)/dicast demo

test: $(READY) ## Run the tests
	@# Two at a time, each file in one of them: most tests keep one core busy.
	$(VENV)/python -m pytest -n 2 --dist loadfile

serve: $(READY) ## Keep the engine and the gateway up until Ctrl-C; ARGS are for `dicast up`
	@# With job control the terminal's Ctrl-C reaches dicast alone; make would end with an error of its own.
	@set -m 2>/dev/null; $(VENV)/dicast up $(ARGS)

check: $(READY) ## Lint, types, import rules, contract, generated code up to date
	$(TOOLS)/buf lint
	$(TOOLS)/buf format --diff --exit-code
	$(TOOLS)/buf breaking --against proto/released.binpb
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/mypy
	$(VENV)/lint-imports
	$(MAKE) gen
	git diff --exit-code client/src/dicast/v1

clients: $(READY) .clients/python/ready .clients/node/ready ## Run other people's clients against the gateway
	@PYTHONPATH=tests GRPC_VERBOSITY=NONE $(VENV)/python tests/clients/drive.py

adapter: $(READY) .training/ready ## Learn, calibrate and measure the embedded model's adapter anew (up to an hour)
	.training/bin/python -m training.adapter --work build/adapter --out $(ADAPTER) \
	  --golden tests/fixtures/embedded_adapter.jsonl $(ARGS)
	cat build/adapter/held-out.jsonl $(QUESTIONS) > build/adapter/calibration.jsonl
	$(VENV)/dicast calibrate build/adapter/calibration.jsonl --out $(ADAPTER)/calibration.json
	$(VENV)/python benchmarks/embedded.py --json build/adapter/measured.json \
	  --page docs/embedded-model.md --page $(ADAPTER)/MODEL_CARD.md

gen: .tools/ready ## Regenerate the protobuf code
	$(PROTOC) --python_out=client/src --mypy_out=quiet:client/src $(PROTOS)
	$(PROTOC) --grpc_python_out=client/src --mypy_grpc_out=quiet:client/src $(SERVICES)

released: .tools/ready ## Make today's contract the one that later changes must not break
	$(TOOLS)/buf build --exclude-source-info -o proto/released.binpb

lock: .tools/ready ## Resolve the versions of all dependencies anew
	$(TOOLS)/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate \
	  --no-emit-index-url --no-emit-package dicast --group dev --extra cpu \
	  client/pyproject.toml server/pyproject.toml gateway/pyproject.toml -o requirements/constraints.txt

.tools/ready: requirements/tools.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dicast needs Python 3.11 or later: make PYTHON=python3.11")'
	$(PYTHON) -m venv .tools
	$(TOOLS)/pip install --quiet --disable-pip-version-check -r requirements/tools.txt
	touch $@

$(READY): .tools/ready requirements/constraints.txt pyproject.toml client/pyproject.toml server/pyproject.toml gateway/pyproject.toml
	$(TOOLS)/uv venv --quiet --clear --python $(PYTHON) .venv
	$(TOOLS)/uv pip install --quiet --python .venv -c requirements/constraints.txt \
	  -e ./client -e "./server[$(DEVICE)]" -e ./gateway --group dev
	touch $@

.training/ready: .tools/ready requirements/training.txt requirements/constraints.txt
	$(TOOLS)/uv venv --quiet --clear --python $(PYTHON) .training
	$(TOOLS)/uv pip install --quiet --python .training -c requirements/constraints.txt -r requirements/training.txt \
	  -e ./client -e "./server[$(DEVICE)]"
	touch $@

.clients/python/ready: .tools/ready requirements/clients.txt
	$(TOOLS)/uv venv --quiet --clear --python $(PYTHON) .clients/python
	$(TOOLS)/uv pip install --quiet --python .clients/python -r requirements/clients.txt
	touch $@

.clients/node/ready: .clients/python/ready tests/clients/node/package.json tests/clients/node/package-lock.json
	mkdir -p .clients/node
	cp tests/clients/node/package.json tests/clients/node/package-lock.json .clients/node
	cd .clients/node && PATH=$(CURDIR)/.clients/python/bin:$$PATH NODE_OPTIONS=--use-system-ca npm ci --no-audit --no-fund --loglevel=error
	touch $@

clean: ## Remove the environments
	rm -rf .venv .tools .clients .training build
