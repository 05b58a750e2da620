"""Writes the recordings of Asterisk's English prompts with their texts: `python prompts.py SOUNDS TEXTS DATA`.

SOUNDS is the folder with the files `.g722` (16 kHz), TEXTS the list of their texts. The folder DATA gets `wavs`, and
`metadata.csv` with lines `file|text`. Left out are sounds without words, whose texts are in brackets, and single
words. Needs PyAV, which faster-whisper brings along.
"""

import gzip
import os
import re
import sys
import wave

import av

RATE = 16000


def texts(path):
    """The text of each prompt, in the order of the list."""
    found = {}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            name, _, text = line.strip().partition(": ")
            if not name.startswith(";") and text:
                found[name] = text
    return found


def is_sentence(text):
    return not re.search(r"[\[\]<>()|]", text) and len(text.split()) > 1


def samples(path):
    with av.open(path, format="g722") as file:
        return b"".join(frame.to_ndarray().tobytes() for frame in file.decode(audio=0))


def write(sounds, list_of_texts, data):
    os.makedirs(os.path.join(data, "wavs"), exist_ok=True)
    lines = []
    for name, text in texts(list_of_texts).items():
        source = os.path.join(sounds, name + ".g722")
        if not is_sentence(text) or not os.path.exists(source):
            continue
        file = name.replace("/", "_") + ".wav"
        with wave.open(os.path.join(data, "wavs", file), "wb") as clip:
            clip.setnchannels(1)
            clip.setsampwidth(2)
            clip.setframerate(RATE)
            clip.writeframes(samples(source))
        lines.append(f"wavs/{file}|{text}\n")
    table = os.path.join(data, "metadata.csv")
    with open(table + ".new", "w", encoding="utf-8") as file:
        file.writelines(lines)
    os.replace(table + ".new", table)
    print(f"{len(lines)} prompts", file=sys.stderr)


if len(sys.argv) != 4:
    sys.exit("usage: python prompts.py SOUNDS TEXTS DATA")
write(*sys.argv[1:])
