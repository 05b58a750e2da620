#!/usr/bin/env bash
# Training steps a second of the models, next to their reference implementations in Python, at
# the same size, on the same random data, with as many threads.
#
#     tools/bench_models.sh [--dim 256] [--rows 2] [--threads 2] ...
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
python=$(bash "$root/tools/reference.sh")
LIBTORCH=$(bash "$root/tools/libtorch.sh") cargo bench --quiet --manifest-path "$root/Cargo.toml" \
    -p stage-torch --bench dual_ar -- "$@"
"$python" "$root/stages/torch/benches/dual_ar.py" "$@"
