"""The benchmarks at one size, beside the original code where a Python has its packages."""

import json
import os

from lab import BENCHES, Failed, NotRun

# The packages that the original code of a family needs.
PACKAGES = {
    "dual_ar": ["torch", "safetensors", "fish_speech"],
    "vits": ["torch", "safetensors", "transformers"],
    "xtts": ["torch", "safetensors", "transformers", "TTS"],
    "codec": ["torch", "safetensors", "fish_speech", "dac"],
}


def without_original(lab, family):
    """None if the original code can run, else the reason why it cannot."""
    program = ("import importlib.util, sys; "
               "missing = [name for name in sys.argv[1:] if not importlib.util.find_spec(name)]; "
               "sys.exit(', '.join(missing) or 0)")
    try:
        done = lab.output([lab.original, "-c", program, *PACKAGES[family]], lab.environment)
    except OSError as error:
        return f"`{lab.original}`: {error.strerror}"
    return f"`{lab.original}` lacks {done.stderr.strip()[-200:]}" if done.returncode else None


def options(lab):
    # Threads that wait for each other gain nothing at tiny sizes.
    threads = 1 if lab.on_cpu else min(os.cpu_count() or 1, 16)
    rounds = 1 if lab.on_cpu else 4
    return ["--size", lab.size, "--threads", threads, "--rounds", rounds] \
        + ([] if lab.on_cpu else ["--gpu", 0])


def measured(lab, name, words):
    """Runs a benchmark that writes a file of JSON."""
    # Beside the results, which hold it only while it is written.
    path = lab.out / f"{name}.figures"
    path.unlink(missing_ok=True)
    done = lab.output([*words, "--json", path])
    # Also if no row could be measured: each has its reason.
    text = path.read_text() if path.exists() else ""
    path.unlink(missing_ok=True)
    if not text:
        raise Failed(done.stderr.strip()[-600:])
    return json.loads(text)


def training(lab, family):
    """Steps with each switch alone, then with all together."""
    program, missing = lab.program("training"), without_original(lab, family)
    # The original projects' Python, since both sides take turns; else any.
    python = ["python3" if missing else lab.original, BENCHES / "training/turns.py", program]
    words = [*python, "--families", family, *options(lab)] + (["--alone"] if missing else [])
    # To load a model on the processor takes longer than to measure its steps.
    words += [] if lab.on_cpu else ["--ahead", 3]
    rows = measured(lab, f"training-{family}", words)
    results = {"original": missing or "run", "rows": rows}
    ours = [row for row in rows if row["side"] == "throstle"]
    failed = [f"{row['label']}: {row['failure']}" for row in ours if row["failure"]]
    # At the published sizes a switch may need more memory than a GPU has.
    if len(failed) == len(ours) or (lab.on_cpu and failed):
        raise Failed("; ".join(failed) or "no row was measured", results)
    return results


def generation(lab):
    """Frames of speech per second."""
    program, missing = lab.program("speech"), without_original(lab, "dual_ar")
    python = ["python3" if missing else lab.original, BENCHES / "speech.py", program]
    size = ["--size", "published" if lab.size == "published" else "small"]
    words = [*python, *options(lab)[2:], *size] + (["--alone"] if missing else [])
    words += ["--frames", 4, "--prompt", 8, "--sentences", 2] if lab.on_cpu else []
    return {"original": missing or "run", "rows": measured(lab, "generation", words)}


def codec(lab):
    """Seconds of audio per second that the codec of Fish Speech encodes and decodes."""
    program = lab.program("fish_dac")
    size = "published" if lab.size == "published" else "tiny"
    threads, gpu = options(lab)[3], [] if lab.on_cpu else [0]
    folder, missing = lab.folder("codec"), without_original(lab, "codec")
    commands = [[program, "write", size, folder], [program, folder, threads, *gpu]]
    if not missing:
        commands.append([lab.original, BENCHES / "fish_dac.py", folder, threads, *gpu])
    text = ""
    for words in commands:
        done = lab.output(words)
        if done.returncode:
            raise Failed(done.stderr.strip()[-600:])
        text += done.stdout
    rows = speeds(text)
    if len(rows) < 2:
        raise Failed("the benchmark printed no speeds")
    return {"original": missing or "run", "rows": rows}


def speeds(text):
    """`SIDE WORK: SPEED s of audio a second` lines by side and work."""
    rows = []
    for line in text.splitlines():
        name, _, speed = line.partition(": ")
        if speed.endswith(" s of audio a second"):
            side, _, work = name.partition(" ")
            rows.append({"side": side, "work": work.strip(), "speed": float(speed.split()[0])})
    return rows
