#!/usr/bin/env bash
# Items per second of a `python` stage: 4,000 texts to a number each, and 4,000 WAV files of 8 kB to a number and a
# file each, with functions that do next to nothing. Each run is cold; the time is that of the whole command.
#
#     tools/bench_python.sh [PROGRAM [RUNS]]
#
# PROGRAM is `throstle`, target/release/throstle by default; RUNS is 3 by default.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
program=$(realpath "${1:-$root/target/release/throstle}")
runs=${2:-3}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

cat > number.py <<'PY'
from throstle import stage

@stage
def count(item, state):
    return {"n": len(item["text"])}
PY
cat > file.py <<'PY'
from throstle import stage

@stage
def describe(item, state):
    with open(item["audio"], "rb") as file:
        size = len(file.read())
    return {"n": size, "about": b'{"bytes": %d}' % size}
PY
cat > pipeline.toml <<'TOML'
[params]
salt = "0"

[pipeline]
name = "rate"

[stage.lines]
use = "corpus.sentences"
file = "lines.txt"

[stage.clips]
use = "corpus.folder"
folder = "clips"

[stage.number]
use = "python"
input = "lines"
script = "number.py"
fields = ["text"]
outputs = { n = "number" }
salt = "$salt"

[stage.file]
use = "python"
input = "clips"
script = "file.py"
fields = ["audio"]
outputs = { n = "number", about = "file/json" }
salt = "$salt"
TOML
python3 - <<'PY'
import array, os, wave

os.mkdir("clips")
with open("lines.txt", "w") as lines:
    for number in range(4000):
        lines.write(f"word {number} in a small line of text\n")
        with wave.open(f"clips/{number:04}.wav", "wb") as file:
            file.setparams((1, 2, 16000, 0, "NONE", None))
            file.writeframes(array.array("h", ((at + number) % 5000 for at in range(4000))).tobytes())
        with open(f"clips/{number:04}.txt", "w") as text:
            text.write(f"word {number}\n")
PY

export PYTHONPATH=$root/python
"$program" run . lines > /dev/null 2>&1
"$program" run . clips > /dev/null 2>&1
echo "| stage | items a second, $runs cold runs |"
echo "|---|---|"
for stage in number file; do
    rates=
    for run in $(seq "$runs"); do
        start=$(date +%s.%N)
        "$program" run . "$stage" --set "params.salt=\"$run\"" > log 2>&1 || { cat log >&2; exit 1; }
        grep -q '4,000 executed' log || { cat log >&2; exit 1; }
        rates+="$(echo "4000 / ($(date +%s.%N) - $start)" | bc), "
    done
    echo "| $stage | ${rates%, } |"
done
