"""Runs each task of a family at its published size with random weights on a CPU, with our programs and
with the original code, and prints a table in Markdown: seconds, processor seconds and the largest
resident size of each process from its start to its end, beside the figures of `plan`. For a training
it also prints the processor seconds of a step after the first one.

    compare.py PROGRAM FOLDER [--only fish.lora,vits.step] [--threads 2] [--rounds 1] [--json FILE]

FOLDER gets 40 GB of files, which later runs reuse. `--only fish` takes all rows of a family. With
several rounds both sides take turns; a figure is the median, for memory the largest.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
DEMO = HERE.parents[3] / "pipelines/demo/data"
# The rows of each family, each with the tasks that must run before it.
TASKS = {
    "xtts": {
        "import": ("import of the published files", []),
        "codes": ("DVAE codes of 32 clips", ["import", "resampled"]),
        "voice": ("conditioning latents and speaker vector", ["import", "reference"]),
        "step": ("three training steps of 3 clips", ["codes"]),
        "checkpointing": ("the same with gradient checkpointing", ["codes"]),
        "sentence": ("a sentence of 60 codes", ["voice", "text"]),
        "longer": ("the same with 240 codes", ["voice", "text"]),
    },
    "fish": {
        "import": ("import of the text model", []),
        "codec": ("import of the codec", []),
        "tokens": ("tokens of 32 clips", ["codec", "resampled"]),
        "step": ("three training steps of 3 clips", ["import", "tokens"]),
        "checkpointing": ("the same with gradient checkpointing", ["import", "tokens"]),
        "lora": ("three steps of adapters", ["import", "tokens"]),
        "merge": ("merge of the adapters", ["lora"]),
        "export": ("export for the original", ["merge"]),
        "sentence": ("a sentence of 24 frames", ["import", "codec", "text"]),
    },
    "vits": {
        "import": ("import of model and discriminator", []),
        "step": ("three training steps of 3 clips", ["import", "resampled"]),
        "export": ("export for the original", ["import"]),
        "sentence": ("a sentence", ["import", "text"]),
        "sentences": ("eight sentences", ["import", "texts"]),
    },
}
# After these rows the original loads the result, strictly.
CHECKED = "export"
GIGABYTE = 1e9


def processor_seconds(process):
    """The processor time of a process and its children so far."""
    children = pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()
    ticks = 0
    for one in [process, *children]:
        # The name of the program may hold spaces.
        fields = pathlib.Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def is_end_of_step(line):
    """The original prints `step`; ours prints events."""
    if line.startswith("{"):
        event = json.loads(line)
        return event.get("event") == "metrics" and "loss" in event["values"]
    return line.strip() == "step"


def measured(command, threads):
    """Runs a program to its end: seconds, processor seconds, those of each step but the first, and
    the largest resident size in bytes."""
    begin = time.monotonic()
    process = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": str(threads)},
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines, marks = [], []
    for line in process.stdout:
        lines.append(line)
        if is_end_of_step(line):
            marks.append(processor_seconds(process.pid))
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = status
    if status:
        raise SystemExit(f"{' '.join(command)} ended with status {status}:\n{''.join(lines[-20:])}")
    steps = [after - before for before, after in zip(marks, marks[1:])]
    return dict(seconds=time.monotonic() - begin, cpu=used.ru_utime + used.ru_stime, steps=steps,
                bytes=used.ru_maxrss * 1024)


def middle(rounds):
    """One figure of several rounds."""
    def median(name):
        return statistics.median(one[name] for one in rounds)
    steps = [step for one in rounds for step in one["steps"]]
    return dict(seconds=median("seconds"), cpu=median("cpu"), bytes=max(r["bytes"] for r in rounds),
                steps=steps, step=statistics.median(steps) if steps else None)


def prepare(folder, family):
    (folder / "data").mkdir(parents=True, exist_ok=True)
    shutil.copytree(DEMO / "wavs", folder / "data/wavs", dirs_exist_ok=True)
    # One clip of the demo is cut off on purpose. The small vocabularies have only ASCII letters as
    # tokens: the texts have as many letters as usual texts have tokens.
    rows = [line.split("|") for line in (DEMO / "metadata.csv").read_text().splitlines()]
    text = "the boat came"
    lines = [f"{name}|{text}|{speaker}" for name, _, speaker in rows if name != "eero_10.wav"]
    (folder / "data/metadata.csv").write_text("\n".join(lines) + "\n")
    shutil.copy(HERE / f"{family}.toml", folder / "pipeline.toml")


def run(program, folder, threads, tasks):
    return [program, "run", str(folder), *tasks, "--json", "--threads", str(threads)]


def planned(program, folder, threads, task):
    """The estimate of a task on this many cores; nothing if it is done."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    output = subprocess.run([program, "plan", str(folder), task, "--json"], check=True, text=True,
                            stdout=subprocess.PIPE,
                            preexec_fn=lambda: os.sched_setaffinity(0, cores)).stdout
    return json.loads(output.splitlines()[-1])["estimate"]["stages"].get(task)


def ready(program, folder, threads, task, before):
    """Runs the tasks that a task needs, and returns its plan. Starts from an empty cache if it needs
    none, or if it is done already."""
    for is_new in (not before, True):
        if is_new:
            shutil.rmtree(folder / ".throstle", ignore_errors=True)
        if before:
            measured(run(program, folder, threads, before), threads)
        if plan := planned(program, folder, threads, task):
            return plan
    raise SystemExit(f"there is no plan for {task}")


HEAD = """| task | original: s | CPU s | a step | GB | throstle: s | CPU s | a step | GB | `plan`: s | GB |
|---|---|---|---|---|---|---|---|---|---|---|"""


def row(title, original, ours, plan):
    def cells(side):
        step = "" if side["step"] is None else f"{side['step']:.1f}"
        return (f"{side['seconds']:.1f} | {side['cpu']:.1f} | {step} | "
                f"{side['bytes'] / GIGABYTE:.2f}")

    def band(figure, unit, digits):
        if not figure:
            return ""
        low, likely, high = (figure[name] / unit for name in ("low", "likely", "high"))
        return f"{likely:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
    return (f"| {title} | {cells(original)} | {cells(ours)} | {band(plan['seconds'], 1, 0)} | "
            f"{band(plan['ram_bytes'], GIGABYTE, 2)} |")


def chosen(only):
    """(family, task) in the order of the table."""
    rows = [(family, task) for family, tasks in TASKS.items() for task in tasks]
    if not only:
        return rows
    wanted = only.split(",")
    known = {name for row in rows for name in (row[0], ".".join(row))}
    if unknown := [name for name in wanted if name not in known]:
        raise SystemExit(f"no row {unknown[0]}; there are {', '.join('.'.join(row) for row in rows)}")
    return [row for row in rows if row[0] in wanted or ".".join(row) in wanted]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=pathlib.Path)
    own = parser.parse_args()
    program, begun = str(own.program.resolve()), set()
    results = json.loads(own.json.read_text()) if own.json and own.json.exists() else {}
    rows = chosen(own.only)
    print(HEAD, flush=True)
    for family, task in rows:
        folder = own.folder.resolve() / family
        title, before = TASKS[family][task]
        reference = [sys.executable, str(HERE / f"{family}.py")]

        def original(task):
            return measured([*reference, task, str(folder), "--threads", str(own.threads)],
                            own.threads)
        if family not in begun:
            prepare(folder, family)
            if not (folder / "made").exists():
                original("make")
                (folder / "made").touch()
            begun.add(family)
        plan, rounds = None, {"original": [], "throstle": []}
        for _ in range(own.rounds):
            found = ready(program, folder, own.threads, task, before)
            # Those after the first round are by measure.
            plan = plan or found
            rounds["throstle"].append(
                measured(run(program, folder, own.threads, [task]), own.threads))
            rounds["original"].append(original(task))
        if task == CHECKED:
            original("check")
        sides = {side: middle(found) for side, found in rounds.items()}
        results[f"{family}.{task}"] = sides | {"plan": plan, "threads": own.threads}
        print(row(f"{family}: {title}", sides["original"], sides["throstle"], plan), flush=True)
        if own.json:
            own.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
