#!/usr/bin/env bash
# How fast VITS of the published size speaks and learns, next to its reference implementation in
# Python on the same number of threads.
#
#     tools/bench_vits.sh [THREADS]
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
threads=${1:-$(nproc)}
python=$("$root/tools/reference.sh")
LIBTORCH=$("$root/tools/libtorch.sh") cargo bench --quiet --manifest-path "$root/Cargo.toml" \
    -p stage-torch --bench vits -- "$threads"
"$python" "$root/stages/torch/benches/vits.py" "$threads"
