#!/usr/bin/env python3
"""Measures what each item costs in the cache, in the log and in a remote: the figures of docs/scale.md.

    python3 tools/scale.py target/release/throstle [ITEMS]

Clips of 0.05 s, two stages on items, a remote in a folder. Everything is in a temporary folder.
"""

import array
import math
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import wave

MANIFEST = """\
[pipeline]
name = "scale"

[stage.clips]
use = "corpus.table"
table = "metadata.csv"
audio = "wavs"

[stage.checked]
use = "audio.check"
input = "clips"
min_duration = "1ms"
min_peak = -100
min_snr = -20
max_silence = 1
max_clipped = 1
quarantine = 1

[stage.small]
use = "audio.resample"
input = "checked"
rate = 16000
"""


def make(folder, items):
    (folder / "wavs").mkdir()
    with open(folder / "metadata.csv", "w", encoding="utf-8") as table:
        for item in range(items):
            name = f"clip{item:07}"
            pitch = 200 + item % 1500
            rate = 22050
            samples = (int(9000 * math.sin(2 * math.pi * pitch * at / rate)) + item % 7
                       for at in range(rate // 20))
            with wave.open(str(folder / "wavs" / f"{name}.wav"), "wb") as clip:
                clip.setnchannels(1)
                clip.setsampwidth(2)
                clip.setframerate(rate)
                clip.writeframes(array.array("h", samples).tobytes())
            table.write(f"{name}|This is sentence number {item}.\n")
    (folder / "pipeline.toml").write_text(MANIFEST)


def size(path):
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def index(path):
    """The numbers of small and large objects of an INDEX, and the bytes of the small ones."""
    data = path.read_bytes()
    volumes, small, large = struct.unpack_from("<III", data, 60)
    start = 72 + 8 * volumes
    lengths = (struct.unpack_from("<I", data, start + 44 * at + 40)[0] for at in range(small))
    return small, large, sum(lengths)


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    items = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        make(folder, items)
        remote = folder / "remote"
        remote.mkdir()
        run = [program, "run", ".", "--remote", f"file://{remote}", "--json"]
        subprocess.run(run, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        cache = folder / ".throstle"
        logs = sum(size(path) for path in cache.rglob("*.jsonl"))
        rows = [("entries of the cache, by name", None)]
        rows += [(entry.name, size(entry)) for entry in sorted(cache.iterdir())]
        indexes = list(remote.glob("packs/*/INDEX"))
        counts = [index(path) for path in indexes]
        objects = sum(small + large for small, large, _ in counts)
        volumes = sum(size(path) for path in remote.glob("packs/*/*.pack"))
        contents = sum(length for _, _, length in counts)
        rows += [
            ("logs of runs", logs),
            ("remote: indexes", sum(map(size, indexes))),
            ("remote: volumes without objects", volumes - contents),
            ("remote: outcomes", size(remote / "results")),
        ]
        print(f"{items} items, {objects} objects in {len(indexes)} packs")
        for name, total in rows:
            each = "" if total is None else f"{total:>14,} B {total / items:>10.1f} B an item"
            print(f"{name:<34}{each}")
        # The memory of a plan on an empty cache, less that of one for ten items.
        peaks = []
        for count in (10, items):
            lines = (folder / "metadata.csv").read_text().splitlines()[:count]
            (folder / "metadata.csv.part").write_text("\n".join(lines) + "\n")
            text = MANIFEST.replace("metadata.csv", "metadata.csv.part")
            (folder / "part.toml").write_text(text)
            plan = [program, "plan", "part.toml", "--cache", folder / f"cache{count}"]
            measured = subprocess.run(["/usr/bin/env", "python3", "-c", WATCH, *map(str, plan)],
                                      cwd=folder, check=True, capture_output=True, text=True)
            peaks.append(int(re.search(r"peak (\d+)", measured.stdout)[1]) * 1024)
        each = (peaks[1] - peaks[0]) / items
        print(f"{'memory of a plan':<34}{peaks[1]:>14,} B {each:>10.1f} B an item")


# A process of its own, so that only the program counts.
WATCH = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print("peak", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""

if __name__ == "__main__":
    main()
