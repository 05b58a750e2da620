"""Runs each task of XTTS v2 at its published size with random weights on a CPU, with our programs
and with the original code, and prints a table in Markdown: seconds, processor seconds and the
largest resident size of each process from its start to its end, beside the figures of `plan`.

    compare.py PROGRAM FOLDER [--threads 2] [--tasks import,codes] [--json FILE]

FOLDER gets 10 GB of files, which later runs reuse.
"""

import argparse
import json
import os
import pathlib
import shutil
import sys
import time

HERE = pathlib.Path(__file__).parent
DEMO = HERE.parents[3] / "pipelines/demo/data"
# The rows of the table, each with the tasks that must run before it.
TASKS = {
    "import": ("import of the published files", []),
    "codes": ("DVAE codes of 32 clips", ["import", "resampled"]),
    "voice": ("conditioning latents and speaker vector", ["import", "reference"]),
    "step": ("three training steps of 3 clips", ["codes"]),
    "checkpointing": ("the same with gradient checkpointing", ["codes"]),
    "sentence": ("a sentence of 60 codes", ["voice", "text"]),
}
GIGABYTE = 1e9


def measured(command, threads):
    """Runs a program to its end: (seconds, processor seconds, largest resident size in bytes)."""
    begin = time.monotonic()
    process = os.posix_spawn(command[0], command, os.environ | {"OMP_NUM_THREADS": str(threads)},
                             file_actions=[(os.POSIX_SPAWN_DUP2, 2, 1)])
    _, status, used = os.wait4(process, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} ended with status {status}")
    return (time.monotonic() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def quietly(command):
    """The standard output of a program."""
    with os.popen(" ".join(command)) as output:
        return output.read()


def prepare(folder):
    (folder / "data").mkdir(parents=True, exist_ok=True)
    shutil.copytree(DEMO / "wavs", folder / "data/wavs", dirs_exist_ok=True)
    # One clip of the demo is cut off on purpose. The small vocabulary has ASCII only.
    rows = [line.split("|") for line in (DEMO / "metadata.csv").read_text().splitlines()]
    text = "the fishing boat came home before the rain and nobody said a word"
    lines = [f"{name}|{text}|{speaker}" for name, _, speaker in rows if name != "eero_10.wav"]
    (folder / "data/metadata.csv").write_text("\n".join(lines) + "\n")
    shutil.copy(HERE / "pipeline.toml", folder)


def planned(program, folder, task):
    """The expected seconds and bytes of a task in `plan`."""
    event = json.loads(quietly([program, "plan", str(folder), task, "--json"]).splitlines()[-1])
    estimate = event["estimate"]["stages"][task]
    memory = estimate["ram_bytes"]
    return estimate["seconds"], memory


def row(task, original, ours, plan):
    seconds, memory = plan
    def cells(side):
        return f"{side[0]:.1f} | {side[1]:.1f} | {side[2] / GIGABYTE:.2f}"
    def band(figure, unit, digits):
        if not figure:
            return ""
        low, likely, high = (figure[name] / unit for name in ("low", "likely", "high"))
        return f"{likely:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
    return (f"| {TASKS[task][0]} | {cells(original)} | {cells(ours)} | {band(seconds, 1, 0)} | "
            f"{band(memory, GIGABYTE, 2)} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--json", type=pathlib.Path)
    own = parser.parse_args()
    program, folder = str(own.program.resolve()), own.folder.resolve()
    prepare(folder)
    reference = [sys.executable, str(HERE / "xtts.py")]
    if not (folder / "original/mel_stats.pth").exists():
        measured([*reference, "make", str(folder)], own.threads)
    shutil.rmtree(folder / ".throstle", ignore_errors=True)
    results = {}
    print("| task | original: s | CPU s | GB | throstle: s | CPU s | GB | `plan`: s | GB |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    for task in own.tasks.split(","):
        if TASKS[task][1]:
            quietly([program, "run", str(folder), *TASKS[task][1], "2>&1"])
        plan = planned(program, folder, task)
        ours = measured([program, "run", str(folder), task], own.threads)
        original = measured([*reference, task, str(folder), "--threads", str(own.threads)],
                            own.threads)
        results[task] = {"original": original, "throstle": ours, "plan": plan}
        print(row(task, original, ours, plan), flush=True)
        if own.json:
            own.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
