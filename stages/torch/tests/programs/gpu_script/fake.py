#!/usr/bin/env python3
"""All programs of a machine with two GPUs that is not there, by the name under which it is started.

FAKE_LOG is a file that gets a line for each start. FAKE names one thing that goes wrong: `resume`,
`memory`, `hang`, `stuck`."""

import json
import os
import pathlib
import re
import sys
import time

GIGABYTE = 10**9
NAME, WORDS, WRONG = pathlib.Path(sys.argv[0]).name, sys.argv[1:], os.environ.get("FAKE", "")


def say(**event):
    print(json.dumps(event), flush=True)


def gpu(number):
    return {"name": f"cuda:{number}", "model": "Tesla T4", "compute_capability": "7.5",
            "memory_total": 15 * GIGABYTE, "memory_free": 14 * GIGABYTE}


def check():
    cpu = {"name": "cpu", "model": None, "compute_capability": None, "memory_total": GIGABYTE,
           "memory_free": GIGABYTE}
    print(json.dumps({"program": "fake", "libtorch": "2.11.0", "cuda": None,
                      "devices": [cpu, gpu(0), gpu(1)], "cuda_error": None}))


def check_fixture(folder, device, precision):
    assert device == "cuda:0", device
    if precision == "bf16":
        print("throstle-torch: bf16 needs compute capability 8.0", file=sys.stderr)
        sys.exit(2)
    print("wave                     worst 5.000e-05  tolerance 1.0e-04  ok")


def run(manifest, cache):
    """The events of a run: nothing to do if the cache is there, unless it holds a checkpoint."""
    text, cache = pathlib.Path(manifest).read_text(), pathlib.Path(cache)
    if (cache / "done").exists():
        return say(event="finished", status="done")
    if WRONG == "hang":
        time.sleep(600)
    cache.mkdir(exist_ok=True)
    say(event="worker-started", device="cuda:0", process=1)
    if "[stage.trained]" in text and "$" not in text and "pipeline.toml" in manifest \
            and "report.summary" not in text:
        train(text, cache)
    (cache / "done").touch()
    say(event="finished", status="done")


def train(text, cache):
    if WRONG == "stuck" and "killed" in str(cache):
        time.sleep(600)
    limit = os.environ.get("PYTORCH_ALLOC_CONF", "")
    if "per_process_memory_fraction" in limit and WRONG != "memory":
        say(event="stage-failed", stage="trained", message="CUDA out of memory", help=None)
        sys.exit(1)
    figure = {"low": 3e9, "likely": 4e9, "high": 5e9}
    seconds = {"low": 1.0, "likely": 1.5, "high": 2.5}
    trained = {"vram_bytes": figure, "seconds": seconds}
    say(event="estimated", stages={"trained": trained}, seconds=seconds)
    steps = int(re.search(r"^steps = (\d+)", text, re.M)[1])
    save = int(re.search(r"^save_every = (\d+)", text, re.M)[1])
    kept = cache / "checkpoint"
    resumed = kept.exists()
    for step in range(save + 1 if resumed else 1, steps + 1):
        loss = 5.0 - 0.1 * step
        # A second device sums in another order.
        loss += 1e-6 * ("cuda:1" in text) + (1.0 if resumed and WRONG == "resume" else 0.0)
        say(event="metrics", stage="trained", step=step, values={"loss": loss})
        if save and step == save:
            kept.touch()
            say(event="checkpoint-kept", stage="trained", bytes=1, seconds=0.1)
            time.sleep(0.3)
    say(event="measured", stage="trained", seconds=2.0, ram_bytes=0.0, vram_bytes=4.2e9)


def training(family, folder, options):
    assert json.loads(options)["gpu"] == 0
    for name in ("spec.json", "batch.safetensors"):
        assert (pathlib.Path(folder) / name).stat().st_size, name
    answers = {"step": {"loss": 4.5, "seconds": 0.2}, "reset": {}, "peak": {"bytes": 2 * GIGABYTE},
               "plan": {"bytes": 3 * GIGABYTE}}
    for line in sys.stdin:
        print(json.dumps({"seconds": 0.2, "user": 0.1} | answers[line.strip()]), flush=True)


def speech(size, *_):
    assert size == "published", size
    for line in sys.stdin:
        print("2.0 1.0", flush=True)


def fish_dac(*words):
    if words[0] == "write":
        assert words[1] == "published", words
        (pathlib.Path(words[2]) / "model.safetensors").touch()
    else:
        assert (pathlib.Path(words[0]) / "model.safetensors").exists()
        print("throstle   encode: 12.50 s of audio a second")
        print("throstle   decode: 20.25 s of audio a second")


if log := os.environ.get("FAKE_LOG"):
    with open(log, "a") as file:
        file.write(f"{NAME} {' '.join(WORDS)}\n")
if NAME == "throstle":
    if WORDS[0] == "doctor":
        print("ok       GPU: two Tesla T4")
    else:
        run(WORDS[1], WORDS[WORDS.index("--cache") + 1])
elif NAME == "throstle-torch":
    if WORDS == ["check"]:
        check()
    else:
        check_fixture(WORDS[1], WORDS[3], WORDS[5])
else:
    {"training": training, "speech": speech, "fish_dac": fish_dac}[NAME](*WORDS)
