#!/usr/bin/env bash
# XTTS v2, openaudio-s1-mini with its codec, and VITS of MMS with its discriminator at their published
# sizes, with random weights on the CPU: imports, tokens, voices, training steps, adapters, merge,
# export with a strict load by the original, and a sentence, each beside the original code in Python
# and the figures of `plan`. All rows need 20 GB of memory and, in FOLDER, 40 GB of disk.
#
#     tools/real_size.sh FOLDER [--only fish.lora,vits] [--json FILE] ...
#
# `stages/torch/benches/real_size/compare.py` lists the rows. THROSTLE names another program.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
python=$(bash "$root/tools/reference.sh")
LIBTORCH=$(bash "$root/tools/libtorch.sh")
export LD_LIBRARY_PATH="$LIBTORCH/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec "$python" "$root/stages/torch/benches/real_size/compare.py" \
    "${THROSTLE:-$root/target/release/throstle}" "$@"
