#!/usr/bin/env bash
# Packs the programs of a build, `tools/gpu.sh` and its data into one file, for a machine with a GPU, torch
# 2.11 and python3, and neither a network nor Rust: `tar xf gpu-parcel.tar.xz; gpu-parcel/tools/gpu.sh`.
#
#     tools/gpu_parcel.sh [PROGRAMS] [FILE]
#
# By default from `target/release` to `target/gpu-parcel.tar.xz`; it has to stay under 64 MB.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$root"
programs=${1:-target/release} file=${2:-target/gpu-parcel.tar.xz}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/gpu-parcel/bin"
for program in throstle throstle-torch training speech fish_dac; do
    strip -o "$scratch/gpu-parcel/bin/$program" "$programs/$program"
done
git ls-files pipelines/demo stages/torch/fixtures stages/torch/benches tools/gpu tools/gpu.sh tools/libtorch.sh |
    tar -c -T - | tar -x -C "$scratch/gpu-parcel"
tar -cJf "$file" -C "$scratch" gpu-parcel
bytes=$(stat -c %s "$file")
[ "$bytes" -lt 64000000 ] || { echo "the parcel has $bytes bytes, more than 64 MB" >&2; exit 1; }
echo "$file: $bytes bytes"
