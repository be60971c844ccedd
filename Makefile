# Entry points. Each is a script of its own; this file only names them.
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Install what building and testing need (Debian, Ubuntu; as root)
	@scripts/setup

.PHONY: build
build: setup ## Build target/release/weft
	@cargo build --release -p weft

.PHONY: demo
demo: setup ## Two nodes on this machine, shown in a minute (as root)
	@scripts/demo

.PHONY: test
test: setup ## All tests on this kernel (as root)
	@scripts/test

.PHONY: test-kernels
test-kernels: setup ## Load and balance on this kernel, 6.1 and 6.12 under QEMU (as root)
	@tests/kernels/run

.PHONY: test-cluster
test-cluster: setup ## On a real Kubernetes cluster of two nodes, the long way (as root)
	@cargo build --quiet --workspace --bins && tests/cluster/run --long

.PHONY: bench
bench: setup ## Against kube-proxy, sidecars and no mesh; results in docs/bench (as root)
	@tests/bench/run
	@tests/bench/run-sidecars

.PHONY: bench-accel
bench-accel: setup ## Same-node acceleration against no mesh; results in docs/bench/acceleration (as root)
	@tests/bench/run-accel

.PHONY: lint
lint: setup ## Formatting, lints, dependency rules
	@scripts/lint

.PHONY: clean
clean: ## Remove everything that was built or downloaded
	@cargo clean --quiet
	@rm -rf .cache
