# Everything from a fresh clone: needs Rust, python3 with pip, gcc and make. Each target fetches
# libtorch first if there is none (tools/libtorch.sh), and `test` a browser for the tests of the report
# page (tools/chromium.sh, which needs apt and root to install one).

.PHONY: build demo voice test test-build outside lint doc release bench bench-training bench-speech bench-programs wheel python test-python gpu-parcel gpu-short parity parity-short soak fuzz clean
.DEFAULT_GOAL := build
SHELL := bash
.SHELLFLAGS := -euo pipefail -c

# Every step names the whole workspace, so that the features of shared dependencies, and with
# them the long build of the libtorch bindings, stay the same from step to step.
LIBTORCH_ENV = LIBTORCH="$$(bash tools/libtorch.sh)"; export LIBTORCH;
CHROMIUM_ENV = CHROMIUM="$$(bash tools/chromium.sh)"; export CHROMIUM;

# The two programs alone; the others of the workspace are for tests.
build:
	@$(LIBTORCH_ENV) cargo build --release --workspace --bin throstle --bin throstle-torch

demo: build
	@target/release/throstle run pipelines/demo
	@target/release/throstle run pipelines/demo/vits.toml
	@target/release/throstle run pipelines/demo/xtts.toml
	@python3 pipelines/long-recordings/make_data.py
	@target/release/throstle run pipelines/long-recordings
	@echo "pipelines/demo/out has three new sentences (spoken), the recordings (wavs), their tokens,"
	@echo "sound decoded from tokens (heard), a summary, and the outputs of VITS and XTTS (vits, xtts);"
	@echo "pipelines/long-recordings/out/corpus has clips of two longer recordings in an invented speech"

# Programs under test have the client of buckets, as in releases. All steps of `.ci/run` use these
# features, so that nothing is built twice; scripts find them in the environment.
export FEATURES := --features cli/cloud,throstle-tests/cloud
TESTED = --workspace $(FEATURES)

# The end-to-end tests start the programs, so those are built first. pip and npm fetch the servers of
# buckets (tools/stores.sh); without them, the tests of remotes in buckets print that they are skipped.
test: test-build
	@$(LIBTORCH_ENV) $(CHROMIUM_ENV) cargo test $(TESTED) --quiet --no-fail-fast

test-build:
	@$(LIBTORCH_ENV) cargo build $(TESTED) --bins --tests

# A stage in a separate crate, and one that `throstle new-stage` writes: with the packages of this
# folder, but outside of the workspace, so that both are built like third-party crates. Then the tests
# with its program, and the packages that such stages depend on, built from the files that a registry
# would get. `cargo publish --dry-run` does the same, but asks the registry even with `--offline`. With a
# test, `throstle` has the same features of dependencies as in `test`, so that nothing is built again.
OUTSIDE = --offline --target-dir target/outside --config profile.dev.debug=false
PUBLISHED = -p throstle-cache -p throstle-stage-core
outside:
	@$(LIBTORCH_ENV) cargo build $(TESTED) --bin throstle --test binary
	@rm -rf target/outside/room-tone
	@target/debug/throstle new-stage room-tone --to target/outside/room-tone --throstle .
	@for folder in tests/outside target/outside/room-tone; do \
		cp Cargo.lock $$folder/Cargo.lock; \
		cargo test --quiet --manifest-path $$folder/Cargo.toml $(OUTSIDE); \
	done
	@cargo build --quiet --manifest-path tests/outside/Cargo.toml $(OUTSIDE)
	@$(LIBTORCH_ENV) THROSTLE_OUTSIDE="$$PWD/target/outside/debug/throstle-whisper" \
		cargo test $(TESTED) --test binary -- outside::
	@cargo package --quiet --allow-dirty $(PUBLISHED) $(OUTSIDE)

lint:
	@cargo fmt --all --check
	@$(LIBTORCH_ENV) cargo clippy $(TESTED) --all-targets -- -D warnings

doc:
	@$(LIBTORCH_ENV) RUSTDOCFLAGS="-D warnings" cargo doc $(TESTED) --no-deps

# A table of measurements against the numbers of docs/benchmarks.md; `make bench BENCH=--full`
# takes 100,000 clips and 1,000,000 items as well.
BENCH =
bench: build
	@$(LIBTORCH_ENV) cargo bench --workspace --bench numbers -- $(BENCH)

# Training steps with each switch alone and with all together, against the original code in the same
# run; `make bench-training BENCH="--gpu 0"` uses the published sizes.
bench-training: build
	@$(LIBTORCH_ENV) bash tools/bench_training.sh $(BENCH)

# Frames of speech per second, one sentence and several at once, against the original code in the same
# run; `make bench-speech BENCH="--size published"` uses 860 million parameters.
bench-speech: build
	@$(LIBTORCH_ENV) bash tools/bench_speech.sh $(BENCH)

# Trains a published voice on recordings of somebody else, and judges it; on two cores at most an hour (estimated)
# (tools/voice.sh; needs Debian or Ubuntu, and espeak-ng). `make voice STEPS=2000` trains for longer.
export STEPS
voice: build
	@$(LIBTORCH_ENV) bash tools/voice.sh

# The benchmark programs, beside `throstle`, where `tools/gpu.sh` looks for them.
bench-programs:
	@$(LIBTORCH_ENV) bash tools/bench_programs.sh release

# One wheel with both programs and the Python module, for `pip install`; libtorch stays outside.
wheel:
	@$(LIBTORCH_ENV) cargo build --profile dist --workspace --bin throstle --bin throstle-torch
	@python3 tools/wheel.py target/dist

# The wheel, an archive of both programs, their bill of materials and checksums: target/release-files.
# First, a check that a registry would accept the packages that custom stages depend on.
release:
	@cargo publish --dry-run --allow-dirty $(PUBLISHED)
	@bash tools/release.sh

# Tests the Python module with numpy, pandas and other packages, which are fetched first;
# `make python PYTHON=--with-torch` adds torch and lhotse.
PYTHON =
python: build
	@bash tools/python.sh target/release/throstle $(PYTHON)
	@python3 python/tests/setup.py

# The same with the programs that `test` has built, and a wheel of them in a bare environment, where
# `throstle setup` fetches libtorch from the package index (0.6 GB). A machine that reaches no registry
# leaves out what needs packages, and says so.
TESTED_WHEEL = target/tested-wheel
test-python:
	@python3 python/tests/versions.py
	@python3 python/tests/setup.py
	@if timeout 300 bash tools/python.sh --fetch; then bash tools/python.sh target/debug/throstle; \
		else echo "skipped: the packages of tools/python.sh cannot be fetched"; fi
	@if timeout 300 python3 tools/wheel.py --fetch $(TESTED_WHEEL); then \
			python3 tools/wheel.py target/debug $(TESTED_WHEEL) 60000000; \
			python3 python/tests/wheel.py $(TESTED_WHEEL)/dist/throstle-*.whl \
				"$$(bash tools/libtorch.sh)"; \
		else echo "skipped: the tools of tools/wheel.py cannot be fetched"; fi

# The programs, `tools/gpu.sh` and its data, for a machine with a GPU, torch 2.11, and neither a network
# nor Rust: `tar xf gpu-parcel.tar.xz; gpu-parcel/tools/gpu.sh`.
gpu-parcel: build bench-programs
	@bash tools/gpu_parcel.sh

# Every part of `tools/gpu.sh`, tiny and on the CPU, with the programs that `test` has built; a step of
# every commit.
gpu-short:
	@$(LIBTORCH_ENV) bash tools/bench_programs.sh debug; rm -rf target/gpu-short; \
		bash tools/gpu.sh --cpu --programs target/debug --out target/gpu-short

# Each model against its reference implementation in Python, which is fetched first: its default
# sizes, then sizes drawn from several seeds.
FIRST_SEED = 1
SEEDS = 4
parity: build
	@$(LIBTORCH_ENV) bash tools/parity.sh target/release/throstle-torch $(FIRST_SEED) $(SEEDS)

# The same with the programs that `test` has built, at fewer sizes; a step of every commit.
parity-short:
	@$(LIBTORCH_ENV) bash tools/parity.sh target/debug/throstle-torch $(FIRST_SEED) 1

# The long versions of tests that every commit runs in short form, and libtorch for CUDA on a machine
# without a GPU, which is fetched first (3 GB).
soak:
	@bash tools/libtorch.sh --cuda > /dev/null
	@$(LIBTORCH_ENV) cargo build $(TESTED) --bins --tests; \
		cargo test $(TESTED) --quiet --no-fail-fast -- --ignored soak

# Fuzzes the parsers of external files: a minute each with `cargo-fuzz` and a nightly toolchain,
# else their property tests with many more cases than in `test`.
HOSTILE = hostile never_panic no_harm any_bytes a_damaged_file
FUZZ_TARGETS = manifest table wav pack wire pth
FUZZ_SECONDS = 60
fuzz:
	@if cargo +nightly fuzz --version > /dev/null 2>&1; then \
		cargo +nightly run --quiet --manifest-path fuzz/Cargo.toml --example seeds; \
		for target in $(FUZZ_TARGETS); do \
			cargo +nightly fuzz run $$target -- -max_total_time=$(FUZZ_SECONDS) -timeout=10; \
		done; \
	else \
		$(LIBTORCH_ENV) export PROPTEST_CASES="$${PROPTEST_CASES:-20000}"; \
		cargo test $(TESTED) --quiet -- $(HOSTILE); \
	fi

clean:
	@cargo clean
