#!/usr/bin/env bash
# Seconds of audio per second that the Fish codec encodes and decodes, beside its reference
# implementation in Python: one small random model, the same clips and threads, or a model of nearly
# the published size on a GPU.
#
#     tools/bench_codec.sh [THREADS [GPU]]
set -euo pipefail

threads=${1:-2}
gpu=${2:-}
width=4
if [ -z "$gpu" ]; then width=1; fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
torch=$root/stages/torch
python=$(bash "$root/tools/reference.sh")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" "$torch/fixtures/make_fish_dac.py" "$folder" --few --clips 1 --frames 3 \
    --encoder-dim $((16 * width)) --encoder-rates 2,4,8,8 --encoder-layers 0,0,0,4 --encoder-head-dim 64 \
    --encoder-block-size 16384 --latent-dim $((256 * width)) --decoder-dim $((384 * width)) --decoder-rates 8,8,4,2 \
    --block-size 4096 --layers 8 --heads $((4 * width)) --head-dim 64 --inner $((768 * width)) --window 128 \
    --semantic-entries 4096 --entries 1024 --codebooks 9 2>/dev/null
LIBTORCH=$(bash "$root/tools/libtorch.sh") cargo bench --quiet --manifest-path "$root/Cargo.toml" \
    -p stage-torch --bench fish_dac -- "$folder" "$threads" $gpu
"$python" "$torch/benches/fish_dac.py" "$folder" "$threads" $gpu 2>/dev/null
