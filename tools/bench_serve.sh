#!/usr/bin/env bash
# The real-time factor of `throstle serve` beside onnxruntime, and the time to the first sound: a VITS
# model of the published size with random weights, the same texts without noise, as many threads for both.
#
#     tools/bench_serve.sh [PROGRAM [THREADS]]
#
# PROGRAM is `throstle`, with its worker beside it; a debug build is enough, since libtorch does the work.
# THREADS is 2 by default.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
program=$(realpath "${1:-$root/target/release/throstle}")
threads=${2:-2}
python=$(bash "$root/tools/players.sh")
scratch=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$scratch"' EXIT

cat > "$scratch/pipeline.toml" <<'TOML'
[pipeline]
name = "serve"
seed = 1

[stage.model]
use = "vits.init"
shape = "mms"
discriminator = false

[stage.sentences]
use = "corpus.sentences"
sentences = ["hei"]

[stage.speech]
use = "vits.synthesize"
input = "sentences"
model = "model"
noise_scale = 0.0
noise_scale_duration = 0.0
max_duration = "10m"

[stage.graph]
use = "model.export"
model = "model"
format = "onnx"
export = "graph"
TOML
"$program" run "$scratch" >&2
"$program" serve "$scratch" --port 0 --threads "$threads" > "$scratch/address" &
server=$!
for _ in $(seq 600); do
    [ -s "$scratch/address" ] && break
    kill -0 "$server" 2>/dev/null || { echo "the server has ended" >&2; exit 1; }
    sleep 0.2
done
"$python" "$root/stages/torch/benches/serve.py" "$(head -n 1 "$scratch/address")" "$scratch/graph" "$threads"
