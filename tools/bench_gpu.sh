#!/usr/bin/env bash
# Fish Speech at its published size with random weights on a GPU, next to the reference
# implementation in Python on the same GPU in the same run: training steps of all weights and of
# adapters with the memory they take, and the codec. Needs a libtorch for that GPU and a reference
# (`.reference`, or REFERENCE) whose torch can use it. Without a GPU it runs at a tiny size on
# the CPU, which shows that it works and nothing else.
#
#     tools/bench_gpu.sh [GPU]
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
gpu=${1:-0}
if nvidia-smi > /dev/null 2>&1; then
    # 860 M parameters; eight rows of 1,024 positions, as the original batches them.
    size=(--gpu "$gpu" --bf16 1 --dim 1024 --head-dim 128 --layers 28 --fast-layers 4
        --vocab 155776 --codebook-size 4096 --codebooks 10 --rows 8 --text 128 --frames 896)
else
    echo "no GPU: a tiny model on the CPU instead"
    gpu=
    size=(--dim 128 --layers 2 --fast-layers 1 --vocab 2048 --codebook-size 256 --codebooks 4
        --frames 64 --steps 2)
fi
for rank in 0 8; do
    echo "adapters of rank $rank (0: all weights are trained)"
    bash "$root/tools/bench_models.sh" "${size[@]}" --rank "$rank"
done
bash "$root/tools/bench_codec.sh" 2 $gpu
