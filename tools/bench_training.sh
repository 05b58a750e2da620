#!/usr/bin/env bash
# Training steps of each model with each switch alone and with all together, alternating with the
# original code in Python on the same libtorch, weights and data: seconds per step, peak memory, and
# the loss after these steps, as a table in Markdown. At small sizes on a CPU, at the published ones
# on a GPU, which needs a reference (`.reference`, or REFERENCE) whose torch can use it.
#
#     tools/bench_training.sh [--families dual_ar,vits] [--size small|published] [--gpu 0] ...
#
# `stages/torch/benches/training/turns.py` has all options.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
python=$(bash "$root/tools/reference.sh")
export LIBTORCH
LIBTORCH=$(bash "$root/tools/libtorch.sh")
program=$(cargo bench --quiet --no-run --message-format=json --manifest-path "$root/Cargo.toml" \
    --workspace --bench training |
    sed -n 's/.*"name":"training".*"executable":"\([^"]*\)".*/\1/p')
exec env LD_LIBRARY_PATH="$LIBTORCH/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
    "$python" "$root/stages/torch/benches/training/turns.py" "$program" "$@"
