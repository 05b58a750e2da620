#!/usr/bin/env bash
# Tests and measures throstle on a machine with a GPU: the devices, the models against their reference
# fixtures in each precision, the demo, a training that is killed and resumed, lack of memory, memory
# against the plan, and the speed of each model with each switch alone, beside the original code if its
# packages are installed.
#
#     tools/gpu.sh [--cpu] [--programs FOLDER] [--out FOLDER] [--only PARTS] [--minutes 40]
#                  [--original PYTHON] [--size published]
#
# It needs the programs (`make build` and `make bench-programs`, or those of a parcel of
# `make gpu-parcel`), torch 2.11 and python3, and neither a network nor Rust. With `--cpu` everything
# is tiny and runs on the CPU. A finished part is kept in FOLDER as `PART.json` and not repeated;
# remove the file to repeat it. `results.json` has all parts, and `results.md` is a page of them. Exit
# code 1 if a part failed.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
LIBTORCH=${LIBTORCH:-$(bash "$root/tools/libtorch.sh" --check 2>/dev/null || true)}
[ -z "$LIBTORCH" ] || export LIBTORCH
export PYTHONDONTWRITEBYTECODE=1
exec python3 "$root/tools/gpu/main.py" "$@"
