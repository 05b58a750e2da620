"""Seconds of work for a second of sound: `throstle serve` and onnxruntime, in turns.

    serve.py ADDRESS FOLDER

FOLDER has a plain graph. Each text is spoken once by both before the clock runs.
"""

import io
import json
import statistics
import sys
import time
import urllib.request
import wave

import numpy
import onnxruntime

TEXTS = [
    "hei",
    "järvellä oli aamulla tyyntä",
    "koira nukkui uunin päällä ja kissa istui ikkunalla koko pitkän iltapäivän",
    "talvella metsässä on hiljaista ja lumi peittää polut joita pitkin kesällä kuljettiin rantaan",
]
TURNS = 5

address, folder = sys.argv[1:]
options = onnxruntime.SessionOptions()
options.intra_op_num_threads, options.log_severity_level = 2, 3
session = onnxruntime.InferenceSession(f"{folder}/model.onnx", options)
vocabulary = json.load(open(f"{folder}/vocab.json", encoding="utf-8"))
rate = json.load(open(f"{folder}/config.json", encoding="utf-8"))["sampling_rate"]


def served(text):
    body = json.dumps({"model": "speech", "voice": "speech", "input": text}).encode()
    request = urllib.request.Request(
        f"{address}/v1/audio/speech", body, {"Content-Type": "application/json"})
    with wave.open(io.BytesIO(urllib.request.urlopen(request).read())) as file:
        return file.getnframes()


def run(text):
    ids = [0]
    for letter in text:
        ids += [vocabulary[letter], 0]
    return session.run(None, {
        "input": numpy.array([ids]), "input_lengths": numpy.array([len(ids)]),
        "scales": numpy.array([0, 1, 0], "float32")})[0].size


factors = {served: [], run: []}
for text in TEXTS:
    counts = {program: program(text) for program in factors}
    assert len(set(counts.values())) == 1, f"{counts} samples of {text!r}"
    for _ in range(TURNS):
        for program, own in factors.items():
            begin = time.perf_counter()
            samples = program(text)
            own.append((time.perf_counter() - begin) * rate / samples)
ours, theirs = (statistics.median(own) for own in factors.values())
print(f"throstle serve  {ours:.3f} s for a second of sound")
print(f"onnxruntime     {theirs:.3f} s for a second of sound")
print(f"speed           {theirs / ours:.2f} x")
