"""The machine, the models against their references, and the demo."""

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

from lab import FIXTURES, Failed, demo_in

PRECISIONS = ("f32", "tf32", "bf16", "fp16")
# The exit code of `check-fixture` for a precision that a model or a device does not have.
NOT_OFFERED = 2


def machine(lab):
    doctor = lab.output([lab.throstle, "doctor", "--cache", lab.out / "no-cache"], lab.environment)
    report = lab.output([lab.worker, "check"])
    if report.returncode != 0:
        raise Failed(report.stderr.strip() or "`throstle-torch check` failed")
    found = json.loads(report.stdout) | {"doctor": doctor.stdout.splitlines()}
    gpus = [device for device in found["devices"] if device["name"] != "cpu"]
    if not lab.on_cpu and not gpus:
        reason = found["cuda_error"] or "this machine has no GPU"
        raise Failed(f"{reason}; `--cpu` runs everything on the processor", found)
    return found


def fixtures(lab):
    """Every fixture in every precision that its model and the device have, several at once, since each
    process spends most of its time on its start."""
    folders = sorted(path.parent for path in FIXTURES.glob("*/fixture.json"))
    works = [(folder, precision) for folder in folders for precision in PRECISIONS]

    def check(work):
        folder, precision = work
        return compared(lab.output([lab.worker, "check-fixture", folder, "--device", lab.device,
                                    "--precision", precision]))

    results, off = {}, []
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as threads:
        for (folder, precision), own in zip(works, threads.map(check, works)):
            results.setdefault(folder.name, {})[precision] = own
            if not own.get("not_run") and own["off"]:
                off.append(f"{folder.name} in {precision}: {', '.join(own['off'][:4])}")
    if not results:
        raise Failed("there are no fixtures")
    if off:
        raise Failed("; ".join(off), results)
    return results


def compared(done):
    """The figures of one fixture, from the lines of `check-fixture`."""
    if done.returncode == NOT_OFFERED:
        return {"not_run": done.stderr.strip().removeprefix("throstle-torch: ")}
    lines = [line.split() for line in done.stdout.splitlines()]
    lines = [words for words in lines if len(words) == 6 and words[1] == "worst"]
    off = [words[0] for words in lines if words[5] != "ok"]
    if not lines or (done.returncode and not off):
        off.append(done.stderr.strip()[-400:] or "no tensor")
    # A tolerance of 0 is met exactly or not at all.
    shares = [float(words[2]) / float(words[4]) for words in lines if float(words[4])]
    return {"tensors": len(lines), "off": off, "worst": max(shares, default=0.0)}


def demo(lab):
    """The three manifests, and again with nothing to do."""
    folder, results = demo_in(lab.folder("demo")), []
    if lab.on_cpu:
        shorten(folder / "pipeline.toml")
    for manifest in ("pipeline.toml", "vits.toml", "xtts.toml"):
        first = lab.run(folder, manifest).check()
        again = lab.run(folder, manifest).check()
        if again.all("worker-started"):
            raise Failed(f"{manifest}: the second run started a worker")
        devices = sorted({event["device"] for event in first.all("worker-started")})
        if lab.device not in devices:
            raise Failed(f"{manifest}: ran on {', '.join(devices)}, and not on {lab.device}")
        results.append({"manifest": manifest, "seconds": round(first.seconds, 1),
                        "again": round(again.seconds, 2), "devices": devices})
        shutil.rmtree(folder / f"cache-{manifest}")
    return results


def shorten(manifest):
    """A training of a few steps, without the preflight that looks for mistakes in long ones."""
    text = manifest.read_text()
    for steps, few in (("steps = 100", "steps = 5"), ("steps = 40", "steps = 2")):
        if steps not in text:
            raise Failed(f"`{manifest.name}` has no `{steps}`")
        text = text.replace(steps, f"{few}\npreflight = false")
    manifest.write_text(text)
