"""Seconds of work for a second of sound, `throstle serve` and onnxruntime in turns, and the time to the first sound.

    serve.py ADDRESS FOLDER THREADS

FOLDER has a plain graph. Each text is spoken once by both before the clock runs. The first sound is that of a streamed
text of 30 words in three sentences; beside it is the time in which the model speaks the first sentence alone.
"""

import http.client
import io
import json
import statistics
import sys
import time
import urllib.parse
import wave

import numpy
import onnxruntime

TEXTS = [
    "hei",
    "järvellä oli aamulla tyyntä",
    "koira nukkui uunin päällä ja kissa istui ikkunalla koko pitkän iltapäivän",
    "talvella metsässä on hiljaista ja lumi peittää polut joita pitkin kesällä kuljettiin rantaan",
]
LONG = [
    "järvellä oli aamulla tyyntä ja lintu lensi veden yli kohti rantaa",
    "koira nukkui uunin päällä ja kissa istui ikkunalla koko pitkän iltapäivän",
    "talvella metsässä on hiljaista ja lumi peittää polut joita pitkin kuljettiin",
]
TURNS = 5

address, folder, threads = sys.argv[1:]
host = urllib.parse.urlsplit(address).netloc
options = onnxruntime.SessionOptions()
options.intra_op_num_threads, options.log_severity_level = int(threads), 3
session = onnxruntime.InferenceSession(f"{folder}/model.onnx", options)
with open(f"{folder}/vocab.json", encoding="utf-8") as file:
    vocabulary = json.load(file)
with open(f"{folder}/config.json", encoding="utf-8") as file:
    rate = json.load(file)["sampling_rate"]


def asked(text, **more):
    """The answer of the server, of which nothing is read yet."""
    body = json.dumps({"model": "speech", "voice": "speech", "input": text, **more})
    connection = http.client.HTTPConnection(host)
    connection.request("POST", "/v1/audio/speech", body.encode(), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    if answer.status != 200:
        sys.exit(f"{answer.status}: {answer.read().decode()}")
    return answer


def served(text):
    with wave.open(io.BytesIO(asked(text).read())) as file:
        return file.getnframes()


def run(text):
    ids = [0]
    for letter in text:
        ids += [vocabulary[letter], 0]
    return session.run(None, {
        "input": numpy.array([ids]), "input_lengths": numpy.array([len(ids)]),
        "scales": numpy.array([0, 1, 0], "float32")})[0].size


def first_sound():
    begin = time.perf_counter()
    answer = asked(". ".join(LONG) + ".", stream=True, response_format="pcm")
    answer.read(2)
    heard = time.perf_counter() - begin
    answer.read()
    return heard


def timed(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


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
first_sound()
heard = statistics.median(first_sound() for _ in range(TURNS))
alone = statistics.median(timed(lambda: served(LONG[0] + ".")) for _ in range(TURNS))
print(f"threads         {threads}")
print(f"throstle serve  {ours:.3f} s for a second of sound")
print(f"onnxruntime     {theirs:.3f} s for a second of sound")
print(f"speed           {theirs / ours:.2f} x")
print(f"first sound     {heard:.3f} s of a text of 30 words; its first sentence alone takes {alone:.3f} s")
