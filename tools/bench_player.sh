#!/usr/bin/env bash
# A published voice of Piper by `throstle` without libtorch, beside onnxruntime in Python and piper-tts, in turns: the
# time to the first sound and the peak memory of a process that speaks one sentence, and the throughput of open voices.
#
#     tools/bench_player.sh [PROGRAM [ROUNDS]]
# PROGRAM is target/release/throstle by default; ROUNDS is 7. All use two threads.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
program=$(realpath "${1:-$root/target/release/throstle}")
python=$(bash "$root/tools/players.sh")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$python" "$root/tools/bench_player.py" "$program" "$scratch" "${2:-7}"
