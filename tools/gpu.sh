#!/usr/bin/env bash
# What there is to know about a machine with a GPU, by one command: the devices, the models against
# their reference fixtures, the demo, and a training that is killed and goes on.
#
#     tools/gpu.sh [--cpu] [--programs FOLDER] [--out FOLDER]
#
# It needs `throstle` and `throstle-torch` (`make build`, or those of a parcel of `make gpu-parcel`) and
# torch 2.11, and neither a network nor Rust. With `--cpu` everything runs on the processor. A part
# that is done is kept in FOLDER as `PART.json` and not done again; remove the file to repeat it.
# `results.json` has all parts, and `results.md` is a page of them.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
device=cuda:0 programs= out=$PWD/gpu-results
while [ $# -gt 0 ]; do
    case $1 in
    --cpu) device=cpu ;;
    --programs) programs=$(cd "$2" && pwd -P) && shift ;;
    --out) out=$2 && shift ;;
    *) sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
    esac
    shift
done
[ -n "$programs" ] || for programs in "$root/bin" "$root/target/release" "$root/target/debug"; do
    [ ! -x "$programs/throstle" ] || break
done
throstle=$programs/throstle worker=$programs/throstle-torch
[ -x "$throstle" ] && [ -x "$worker" ] || { echo "no programs in $programs: make build" >&2 && exit 1; }
LIBTORCH=${LIBTORCH:-$(bash "$root/tools/libtorch.sh" 2>/dev/null || true)}
[ -z "$LIBTORCH" ] || export LIBTORCH
mkdir -p "$out" && out=$(cd "$out" && pwd -P)
# With the devices hidden, `auto` means the processor.
[ "$device" != cpu ] || export CUDA_VISIBLE_DEVICES=

# The worker without the program around it looks for libtorch itself.
direct() { LD_LIBRARY_PATH=${LIBTORCH:+$LIBTORCH/lib:}${LD_LIBRARY_PATH:-} "$worker" "$@"; }

# Does a part unless it is done. A part writes its result to stdout as JSON; one that fails has none
# and is done again by the next run.
failures=0
part() {
    local name=$1 start=$SECONDS
    [ ! -e "$out/$name.json" ] || { echo "$name: done before" && return; }
    if "part_$name" >"$out/$name.part" 2>"$out/$name.log"; then
        mv "$out/$name.part" "$out/$name.json"
        echo "$name: $((SECONDS - start)) s"
    else
        failures=$((failures + 1))
        echo "$name: failed after $((SECONDS - start)) s, see $out/$name.log" && tail -n 5 "$out/$name.log"
    fi
}

part_machine() {
    "$throstle" doctor --cache "$out/none" >&2
    direct check
}

# Every fixture that was made by the reference implementations. The comparison is on the processor:
# `check-fixture` has no other device yet.
part_fixtures() {
    local folder lines
    for folder in "$root"/stages/torch/fixtures/*/; do
        [ -e "$folder/fixture.json" ] || continue
        printf 'fixture %s\n' "$(basename "$folder")"
        direct check-fixture "$folder" || true
    done | tee /dev/stderr | python3 -c '
import json, sys
fixtures, name = {}, None
for line in sys.stdin:
    words = line.split()
    if words[:1] == ["fixture"]:
        name = words[1]
        fixtures[name] = {"tensors": 0, "off": [], "worst": 0.0}
    elif len(words) == 6 and words[1] == "worst":
        own = fixtures[name]
        own["tensors"] += 1
        own["worst"] = max(own["worst"], float(words[2]) / float(words[4]))
        if words[5] != "ok":
            own["off"].append(words[0])
bad = [name for name, own in fixtures.items() if own["off"] or not own["tensors"]]
print(json.dumps(fixtures, indent=2))
sys.exit(f"off: {bad}" if bad else 0)'
}

# Runs a manifest of a copy of the demo; the events go to a file.
run_demo() {
    local work=$1 manifest=$2
    "$throstle" run "$work/demo/$manifest" --cache "$work/cache-$manifest" --json
}

copy_demo() {
    rm -rf "$1" && mkdir -p "$1" && cp -r "$root/pipelines/demo" "$1/demo"
    rm -rf "$1/demo/out" "$1/demo/.throstle"
}

# The demo whole, and again with nothing to do.
part_demo() {
    local work=$out/work-demo manifest start seconds
    copy_demo "$work"
    for manifest in pipeline.toml vits.toml xtts.toml; do
        start=$(date +%s.%N)
        run_demo "$work" "$manifest" >"$work/$manifest.first"
        seconds=$(python3 -c 'import sys, time; print(time.time() - float(sys.argv[1]))' "$start")
        run_demo "$work" "$manifest" >"$work/$manifest.second"
        python3 - "$manifest" "$seconds" "$work/$manifest.first" "$work/$manifest.second" <<'PYTHON'
import json, sys
manifest, seconds, first, second = sys.argv[1:]
events = lambda path: [json.loads(line) for line in open(path)]
kind = lambda event: event.get("event") or event.get("type")
devices = sorted({event["device"] for event in events(first) if kind(event) == "worker-started"})
again = [event for event in events(second) if kind(event) == "worker-started"]
assert not again, "the second run started a worker"
print(json.dumps({"manifest": manifest, "seconds": round(float(seconds), 2), "devices": devices}))
PYTHON
    done | python3 -c 'import json, sys; print(json.dumps([json.loads(line) for line in sys.stdin], indent=2))'
}

# A training that is killed after its first checkpoint goes on and ends as one that never was: on the
# processor with the same bits.
part_resume() {
    local work=$out/work-resume straight killed pid
    for straight in "$work/straight" "$work/killed"; do copy_demo "$straight"; done
    straight=$work/straight killed=$work/killed
    run_demo "$straight" vits.toml >"$straight/events"
    run_demo "$killed" vits.toml >"$killed/events" &
    pid=$!
    until grep -q checkpoint-kept "$killed/events" || ! kill -0 "$pid" 2>/dev/null; do sleep 0.02; done
    kill -9 "$pid" 2>/dev/null || true
    wait "$pid" || true
    run_demo "$killed" vits.toml >"$killed/events.second"
    python3 - "$device" "$straight/demo/out/vits/model" "$killed/demo/out/vits/model" "$killed/events" <<'PYTHON'
import hashlib, json, os, sys
device, straight, killed, events = sys.argv[1:]
digest = lambda folder: {
    name: hashlib.sha256(open(os.path.join(folder, name), "rb").read()).hexdigest()
    for name in sorted(os.listdir(folder))
}
same = digest(straight) == digest(killed)
was_killed = not any("finished" == json.loads(line).get("event") for line in open(events) if line.endswith("}\n"))
print(json.dumps({"killed": was_killed, "same_bits": same}, indent=2))
assert same or device != "cpu", "the processor gives other bits after a resume"
PYTHON
}

for name in machine fixtures demo resume; do part "$name"; done

python3 - "$out" "$device" machine fixtures demo resume <<'PYTHON'
import json, os, sys
out, device, *parts = sys.argv[1:]
path = lambda name: os.path.join(out, name + ".json")
results = {name: json.load(open(path(name))) for name in parts if os.path.exists(path(name))}
json.dump({"device": device, **results}, open(os.path.join(out, "results.json"), "w"), indent=2)
lines = [f"# Results on `{device}`", ""]
machine = results.get("machine", {})
for one in machine.get("devices", []):
    capability = one.get("compute_capability")
    known = [one["name"], one.get("model"), capability and f"compute capability {capability}"]
    lines.append("- " + ", ".join(part for part in known if part))
lines += ["", "| fixture | tensors | worst, relative to its tolerance |", "|---|---|---|"]
for name, one in results.get("fixtures", {}).items():
    lines.append(f"| {name} | {one['tensors']} | {one['worst']:.2f} |")
lines += ["", "| demo | seconds | devices |", "|---|---|---|"]
for one in results.get("demo", []):
    lines.append(f"| {one['manifest']} | {one['seconds']} | {', '.join(one['devices'])} |")
if "resume" in results:
    same = "the same bits" if results["resume"]["same_bits"] else "other bits"
    lines += ["", f"A training that was killed and went on has {same} as one that never was."]
missing = [name for name in parts if name not in results]
if missing:
    lines += ["", "Failed: " + ", ".join(missing) + "."]
open(os.path.join(out, "results.md"), "w").write("\n".join(lines) + "\n")
PYTHON
echo "results: $out/results.md"
[ "$failures" = 0 ]
