#!/usr/bin/env bash
# How fast VITS speaks and learns, next to its reference implementation in Python on the same
# libtorch and the same number of threads: a training step of both nets, at the published size or
# at a small one. The two take turns.
#
#     tools/bench_vits.sh [THREADS [small|published [ROUNDS]]]
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
threads=${1:-$(nproc)}
size=${2:-small}
rounds=${3:-15}
python=$(bash "$root/tools/reference.sh")
export LIBTORCH
LIBTORCH=$(bash "$root/tools/libtorch.sh")
bench=(cargo bench --quiet --manifest-path "$root/Cargo.toml" -p stage-torch --bench vits)
"${bench[@]}" --no-run
"$python" "$root/stages/torch/benches/vits.py" "$threads" "$size" "$rounds" "${bench[@]}" --
