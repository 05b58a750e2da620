"""Shared by the original code of all families: the clips of the demo, and the choice of a task."""

import argparse
import itertools
import pathlib
import sys
import wave

import torch
import torchaudio

sys.dont_write_bytecode = True
FIXTURES = pathlib.Path(__file__).parents[2] / "fixtures"
TRAINING = pathlib.Path(__file__).parents[1] / "training"
sys.path[:0] = [str(FIXTURES), str(TRAINING)]
SENTENCE = "it was a quiet morning by the lake and the dog slept"
STEPS, ROWS = 3, 3


def clips(folder, rate):
    """The clips at a rate, [1, samples] each, and their texts."""
    rows = [line.split("|") for line in (folder / "data/metadata.csv").read_text().splitlines()]
    for name, text, *_ in rows:
        with wave.open(str(folder / "data/wavs" / name)) as file:
            samples = torch.frombuffer(bytearray(file.readframes(file.getnframes())),
                                       dtype=torch.int16)
            sound = samples.float()[None] / 32768
            yield torchaudio.functional.resample(sound, file.getframerate(), rate), text


def batches(folder, rate):
    """The clips of each training step."""
    found = list(itertools.islice(clips(folder, rate), STEPS * ROWS))
    return [found[start:start + ROWS] for start in range(0, len(found), ROWS)]


def main(tasks):
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=tasks)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=2)
    own = parser.parse_args()
    torch.set_num_threads(own.threads)
    tasks[own.task](own.folder)
