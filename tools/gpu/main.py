"""Runs the parts that are not done yet, keeps the result of each, and writes the page. `tools/gpu.sh`
documents the arguments."""

import argparse
import json
import os
import pathlib
import shutil
import sys
import time
import traceback

import checks
import page
import speed
import trainings
from lab import Failed, Lab, NotRun, say

PARTS = {
    "machine": checks.machine,
    "fixtures": checks.fixtures,
    "demo": checks.demo,
    "resume": trainings.resume,
    "out-of-memory": trainings.out_of_memory,
    "memory": trainings.memory,
    "devices": trainings.devices,
    "training-dual_ar": lambda lab: speed.training(lab, "dual_ar"),
    "training-vits": lambda lab: speed.training(lab, "vits"),
    "training-xtts": lambda lab: speed.training(lab, "xtts"),
    "generation": speed.generation,
    "codec": speed.codec,
}


def arguments():
    parser = argparse.ArgumentParser(prog="tools/gpu.sh")
    parser.add_argument("--cpu", action="store_true", help="everything tiny, on the processor")
    parser.add_argument("--programs", help="the folder of `throstle`")
    parser.add_argument("--out", default="gpu-results", help="the folder of the results")
    parser.add_argument("--only", help=f"parts, separated by commas, of: {', '.join(PARTS)}")
    parser.add_argument("--minutes", type=float, default=40,
                        help="parts that would begin later are left to the next call")
    parser.add_argument("--original", default=os.environ.get("REFERENCE", "python3"),
                        help="a Python with the packages of the original projects")
    parser.add_argument("--size", choices=["tiny", "small", "published"],
                        help="of the models that are measured (default: published, tiny with --cpu)")
    options = parser.parse_args()
    options.size = options.size or ("tiny" if options.cpu else "published")
    if options.only is not None:
        options.only = [name.strip() for name in options.only.split(",")]
        unknown = [name for name in options.only if name not in PARTS]
        if unknown:
            parser.error(f"no part `{unknown[0]}`; there are {', '.join(PARTS)}")
    if not 0 <= options.minutes < float("inf"):
        parser.error("--minutes: expected a number from 0 on")
    try:
        out = pathlib.Path(options.out)
        out.mkdir(parents=True, exist_ok=True)
        write(out / "writable", {})
        (out / "writable").unlink()
    except OSError as error:
        parser.error(f"--out: {error}")
    return options


def write(path, value):
    """Writes a file so that it is never incomplete under its name."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(value, indent=1) + "\n")
    part.replace(path)


def outcome(lab, name):
    """Does a part. Its state is `done`, `failed`, or `not run`."""
    if lab.left() <= 0:
        return {"state": "not run", "reason": "time limit reached; the next call runs it"}
    begin = time.monotonic()
    try:
        result = {"state": "done", "figures": PARTS[name](lab)}
    except NotRun as reason:
        result = {"state": "not run", "reason": str(reason)}
    except Failed as failed:
        result = {"state": "failed", "reason": str(failed), "figures": failed.figures}
    # An error in one part must not end the others.
    except Exception as error:
        traceback.print_exc()
        result = {"state": "failed", "reason": f"{type(error).__name__}: {error}", "figures": None}
    result["seconds"] = round(time.monotonic() - begin, 1)
    return result


def kept(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def main():
    options = arguments()
    lab = Lab(options)
    # The other parts ask which devices there are.
    wanted = ["machine", *options.only] if options.only else list(PARTS)
    # What the figures of a part are for.
    place, results = {"device": lab.device, "size": lab.size}, {}
    for name in PARTS:
        path = lab.out / f"{name}.json"
        before = kept(path)
        if before and {name: before.get(name) for name in place} == place:
            results[name] = before
            if name in wanted:
                say(f"{name}: done before")
        elif name in wanted:
            results[name] = outcome(lab, name)
            say(line(name, results[name]))
            if results[name]["state"] == "done":
                write(path, place | results[name])
                shutil.rmtree(lab.out / f"work-{name}", ignore_errors=True)
        if name == "machine" and results.get(name, {}).get("state") == "done":
            lab.machine = results[name]["figures"]
        elif name == "machine" and name in results:
            break
    write(lab.out / "results.json", place | {"parts": results})
    (lab.out / "results.md").write_text(page.of(lab, results))
    say(f"results: {lab.out / 'results.md'}")
    return any(result["state"] == "failed" for result in results.values())


def line(name, result):
    text = f"{name}: {result['state']}, {result.get('seconds', 0)} s"
    return f"{text}: {result['reason']}" if "reason" in result else text


if __name__ == "__main__":
    sys.exit(main())
