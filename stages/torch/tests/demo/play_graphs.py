"""Runs exported graphs with onnxruntime, sherpa-onnx and piper-tts, without noise, and compares the
samples with the WAV files of the stage, which have 16 bits. Prints a line per comparison.

    play_graphs.py SENTENCES FOLDER SPEAKERS
"""

import json
import sys
import unicodedata
import wave

import numpy
import onnxruntime
import sherpa_onnx
from piper import PiperVoice, SynthesisConfig

SPEAKER = 2
# The graphs have to be as near as 1e-4; half a step of 16 bits is in the files.
TOLERANCE = 1e-4 + 0.5 / 32768

sentences = [line for line in open(sys.argv[1], encoding="utf-8").read().split("\n") if line]
folder, speakers = sys.argv[2], int(sys.argv[3])
failures = 0


def expected(number):
    with wave.open(f"{folder}/spoken/{number:03}.wav") as file:
        return numpy.frombuffer(file.readframes(file.getnframes()), "<i2") / 32768


def compare(name, number, samples, tolerance=TOLERANCE):
    global failures
    samples, own = numpy.asarray(samples).reshape(-1), expected(number)
    same = len(samples) == len(own)
    worst = numpy.abs(samples - own).max() if same else float("inf")
    good = same and worst <= tolerance
    failures += not good
    print(f"{name} {number} {len(samples)} {len(own)} {worst:.1e} {'ok' if good else 'OFF'}")


def plain(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    vocabulary = json.load(open(f"{folder}/plain/vocab.json", encoding="utf-8"))

    def run(text):
        ids = [0]
        for letter in unicodedata.normalize("NFC", text).lower():
            if letter in vocabulary:
                ids += [vocabulary[letter], 0]
        feeds = {
            "input": numpy.array([ids]), "input_lengths": numpy.array([len(ids)]),
            "scales": numpy.array([0, 1, 0], "float32"),
        }
        if speakers > 1:
            feeds["sid"] = numpy.array([SPEAKER])
        return session.run(None, feeds)[0]

    return run


def sherpa():
    model = sherpa_onnx.OfflineTtsVitsModelConfig(
        model=f"{folder}/sherpa/model.onnx", tokens=f"{folder}/sherpa/tokens.txt", lexicon="",
        noise_scale=0.0, noise_scale_w=0.0, length_scale=1.0)
    config = sherpa_onnx.OfflineTtsConfig(
        model=sherpa_onnx.OfflineTtsModelConfig(vits=model, num_threads=1, provider="cpu"),
        max_num_sentences=1)
    assert config.validate()
    player = sherpa_onnx.OfflineTts(config)
    assert player.num_speakers == speakers and player.sample_rate == 16000
    how = sherpa_onnx.GenerationConfig()
    how.sid, how.speed = SPEAKER if speakers > 1 else 0, 1.0
    # By default it shortens silence, which is what a quiet model sounds like to it.
    how.silence_scale = 1.0
    return lambda text: player.generate(unicodedata.normalize("NFC", text), how).samples


def piper():
    voice = PiperVoice.load(f"{folder}/piper/model.onnx")
    how = SynthesisConfig(
        speaker_id=SPEAKER if speakers > 1 else None, noise_scale=0.0, noise_w_scale=0.0,
        length_scale=1.0, normalize_audio=False)

    def run(text):
        return numpy.concatenate([chunk.audio_float_array for chunk in voice.synthesize(text, how)])

    return run


players = {"plain": plain(f"{folder}/plain/model.onnx"), "sherpa": sherpa(), "piper": piper()}
for name, run in players.items():
    for number, text in enumerate(sentences, 1):
        compare(name, number, run(text))
# Fewer bits may move a border between durations: the rhythm has to stay.
for name in ("half", "whole"):
    run, ratios = plain(f"{folder}/{name}/model.onnx"), []
    for number, text in enumerate(sentences, 1):
        ratios.append(run(text).size / len(expected(number)))
    good = all(0.8 <= ratio <= 1.25 for ratio in ratios)
    failures += not good
    print(f"{name} {min(ratios):.3f} {max(ratios):.3f} {'ok' if good else 'OFF'}")
sys.exit(failures > 0)
