#!/usr/bin/env bash
# Frames of speech per second of the text model of Fish Speech, beside the original code in Python:
# one sentence, and several at once. `--size published` takes 860 million random parameters, which
# needs 10 GB of memory.
#
#     tools/bench_speech.sh [--size small|published] [--threads 2] [--sentences 8] [--gpu 0] ...
#
# `stages/torch/benches/speech.py` has all options.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
python=$(bash "$root/tools/reference.sh")
export LIBTORCH
LIBTORCH=$(bash "$root/tools/libtorch.sh")
program=$(cargo bench --quiet --no-run --message-format=json --manifest-path "$root/Cargo.toml" \
    --workspace --bench speech |
    sed -n 's/.*"name":"speech".*"executable":"\([^"]*\)".*/\1/p')
exec env LD_LIBRARY_PATH="$LIBTORCH/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
    "$python" "$root/stages/torch/benches/speech.py" "$program" "$@"
