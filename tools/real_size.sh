#!/usr/bin/env bash
# XTTS v2 at its published size with random weights on the CPU: import, codes, voice, training steps
# with and without gradient checkpointing, and a sentence, each beside the original code in Python
# and the figures of `plan`. Needs 12 GB of memory and, in FOLDER, 25 GB of disk.
#
#     tools/real_size.sh FOLDER [--tasks import,codes,voice,step,checkpointing,sentence] ...
#
# `stages/torch/benches/real_size/compare.py` has all options. THROSTLE names another program.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
python=$(bash "$root/tools/reference.sh")
LIBTORCH=$(bash "$root/tools/libtorch.sh")
export LD_LIBRARY_PATH="$LIBTORCH/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec "$python" "$root/stages/torch/benches/real_size/compare.py" \
    "${THROSTLE:-$root/target/release/throstle}" "$@"
