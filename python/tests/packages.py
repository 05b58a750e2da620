"""The module `throstle` with real packages: numpy, parselmouth, pandas, pyarrow, webdataset, datasets, and lhotse where
it is.

    python3 packages.py THROSTLE GUIDE

Makes a small pipeline with the program THROSTLE and the scripts of the guide, runs it with this interpreter, and
compares what Python reads with the exports of the run. `make python` installs the packages and starts this.
"""

import importlib.util
import json
import math
import os
import pickle
import re
import struct
import subprocess
import sys
import tempfile
import unittest
import wave

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
# The processes of a loader import this file as well, without arguments.
if __name__ == "__main__":
    THROSTLE, GUIDE = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    os.environ["THROSTLE"] = THROSTLE

import numpy  # noqa: E402

import throstle  # noqa: E402

MANIFEST = """
[pipeline]
name = "packages"

[stage.clips]
use = "corpus.table"
table = "metadata.csv"
audio = "wavs"

[stage.voice]
use = "audio.resample"
input = "clips"
rate = 16000
export = "out/{{id}}.wav"

[stage.pitch]
use = "python"
input = "voice"
python = "{python}"
script = "pitch.py"
fields = ["audio"]
outputs = {{ pitch = "number" }}
verify = true

[stage.near]
use = "python.all"
input = "pitch"
python = "{python}"
script = "near.py"
fields = ["pitch", "audio", "text"]
outputs = {{ middle = "number" }}
item_outputs = {{ distance = "number" }}
"""
PRAAT = """
[stage.praat]
use = "python"
input = "voice"
python = "{python}"
script = "praat.py"
fields = ["audio"]
outputs = {{ median_pitch = "number", harmonicity = "number" }}
verify = true

[stage.clear]
use = "dataset.filter"
input = "praat"
where = [{{ field = "harmonicity", min = 5 }}]
"""
PITCHES = {"low": 110, "middle": 200, "high": 210, "odd": 350}


def has(package):
    return importlib.util.find_spec(package) is not None


def scripts(guide):
    """The code blocks of the guide that begin with an import."""
    with open(guide, encoding="utf-8") as file:
        text = file.read()
    blocks = re.findall(r"(?:^    .*\n|^\n)+", text, re.MULTILINE)
    code = [re.sub("^    ", "", block, flags=re.MULTILINE).strip("\n") + "\n" for block in blocks]
    # The tables of the manifest may follow directly.
    code = [re.split(r"^\[", block, flags=re.MULTILINE)[0].rstrip("\n") + "\n" for block in code]
    return [block for block in code if "@stage" in block and "def " in block]


def tone(path, pitch, rate=16000):
    samples = [int(9000 * math.sin(2 * math.pi * pitch * at / rate)) for at in range(rate // 2)]
    with wave.open(path, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(struct.pack(f"<{len(samples)}h", *samples))


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        os.chdir(cls.folder.name)
        os.mkdir("wavs")
        pitch = next(code for code in scripts(GUIDE) if "def pitch" in code)
        near = next(code for code in scripts(GUIDE) if "def outliers" in code)
        praat = next(code for code in scripts(GUIDE) if "def praat" in code)
        manifest = MANIFEST + (PRAAT if has("parselmouth") else "")
        files = {"pipeline.toml": manifest.format(python=sys.executable), "pitch.py": pitch, "near.py": near, "praat.py": praat}
        for name, text in files.items():
            with open(name, "w", encoding="utf-8") as file:
                file.write(text)
        with open("metadata.csv", "w", encoding="utf-8") as table:
            for name, hertz in PITCHES.items():
                tone(f"wavs/{name}.wav", hertz)
                table.write(f"{name}.wav|Sana {name} sanottu.|aino\n")
        done = subprocess.run([os.environ["THROSTLE"], "run", "."], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        cls.pipeline = throstle.open(".")

    @classmethod
    def tearDownClass(cls):
        os.chdir("/")
        cls.folder.cleanup()

    def test_the_scripts_of_the_guide_find_the_pitch_of_tones(self):
        found = {item.id: item["pitch"] for item in self.pipeline["pitch"]}
        for name, hertz in PITCHES.items():
            self.assertLess(abs(found[name] - hertz), 0.02 * hertz, name)
        self.assertEqual([item.id for item in self.pipeline["near.items"]], ["high", "middle"])

    @unittest.skipUnless(has("parselmouth"), "parselmouth is not installed")
    def test_the_example_with_praat_measures_tones(self):
        found = {item.id: item for item in self.pipeline["praat"]}
        self.assertEqual(sorted(found), sorted(PITCHES))
        for name, hertz in PITCHES.items():
            self.assertLess(abs(found[name]["median_pitch"] - hertz), 0.01 * hertz, name)
            self.assertGreater(found[name]["harmonicity"], 30, name)
        self.assertEqual([item.id for item in self.pipeline["clear"]], sorted(PITCHES))

    def test_arrays_have_the_samples_of_the_exports(self):
        for item in self.pipeline["voice"]:
            with wave.open(f"out/{item.id}.wav") as file:
                expected = numpy.frombuffer(file.readframes(file.getnframes()), "<i2").astype(numpy.float32) / 32768
            array = item["audio"].array()
            self.assertEqual((array.dtype, item["audio"].rate), (numpy.float32, 16000))
            numpy.testing.assert_array_equal(array, expected)

    def test_wav_of_every_form_is_read(self):
        from throstle import formats

        class Made:
            def __init__(self, view):
                self.view = memoryview(view)

        for tag, bits, raw, expected in [
            (1, 8, bytes([0, 128, 255]), [-1, 0, 127 / 128]),
            (1, 24, bytes([0, 0, 128, 0, 0, 64, 255, 255, 255]), [-1, 0.5, -1 / (1 << 23)]),
            (1, 32, struct.pack("<3i", -(1 << 31), 0, 1 << 30), [-1, 0, 0.5]),
            (3, 32, struct.pack("<3f", -1, 0, 0.25), [-1, 0, 0.25]),
        ]:
            form = struct.pack("<HHIIHH", tag, 1, 8000, 8000 * bits // 8, bits // 8, bits)
            body = b"fmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(raw)) + raw
            data = b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WAVE" + body
            numpy.testing.assert_allclose(formats.array(Made(data)), expected, atol=1e-7, err_msg=f"{tag} {bits}")

    @unittest.skipUnless(has("pandas"), "pandas is not installed")
    def test_a_data_frame_has_a_row_per_item(self):
        frame = self.pipeline["pitch"].to_pandas()
        self.assertEqual(list(frame["id"]), sorted(PITCHES))
        self.assertEqual(frame["text"][0], "Sana high sanottu.")

    @unittest.skipUnless(has("pyarrow"), "pyarrow is not installed")
    def test_a_table_has_the_texts_and_numbers(self):
        table = self.pipeline["pitch"].table()
        self.assertEqual((table.num_rows, table["text"][0].as_py()), (4, "Sana high sanottu."))

    @unittest.skipUnless(has("webdataset"), "webdataset is not installed")
    def test_webdataset_reads_the_shards_of_both(self):
        import webdataset

        self.pipeline["voice"].to_webdataset("own/%06d.tar", most=40_000)
        subprocess.run([os.environ["THROSTLE"], "items", "voice", "--format", "webdataset", "--to", "web"], check=True, capture_output=True)
        for pattern, shards in [("own", 2), ("web", 1)]:
            paths = sorted(f"{pattern}/{name}" for name in os.listdir(pattern))
            self.assertEqual(len(paths), shards)
            samples = {sample["__key__"]: sample for sample in webdataset.WebDataset(paths, shardshuffle=False)}
            self.assertEqual(sorted(samples), sorted(PITCHES))
            with open("out/low.wav", "rb") as file:
                self.assertEqual(samples["low"]["audio.wav"], file.read())
            self.assertEqual(json.loads(samples["low"]["json"])["text"], "Sana low sanottu.")

    @unittest.skipUnless(has("datasets"), "datasets is not installed")
    def test_datasets_has_the_bytes_of_the_recordings(self):
        import datasets

        made = self.pipeline["voice"].to_hf()
        raw = made.cast_column("audio", datasets.Audio(decode=False))
        with open("out/high.wav", "rb") as file:
            self.assertEqual(raw[0]["audio"]["bytes"], file.read())
        self.assertEqual(made["id"][:2], ["high", "low"])

    @unittest.skipUnless(has("torchcodec"), "torchcodec is not installed")
    def test_datasets_loads_the_folder(self):
        import datasets

        subprocess.run([os.environ["THROSTLE"], "items", "voice", "--format", "hf", "--to", "hf"], check=True, capture_output=True)
        loaded = datasets.load_dataset("audiofolder", data_dir="hf", split="train", cache_dir="cache")
        loaded = loaded.cast_column("audio", datasets.Audio(decode=False))
        self.assertEqual(sorted(loaded["text"]), sorted(f"Sana {name} sanottu." for name in PITCHES))

    @unittest.skipUnless(has("lhotse"), "lhotse is not installed")
    def test_lhotse_reads_the_shards_of_both(self):
        import lhotse

        self.pipeline["voice"].to_shar("ownshar", shard=3)
        subprocess.run([os.environ["THROSTLE"], "items", "voice", "--format", "shar", "--to", "shar"], check=True, capture_output=True)
        for folder in ["ownshar", "shar"]:
            cuts = list(lhotse.CutSet.from_shar(in_dir=folder))
            self.assertEqual(sorted(cut.id for cut in cuts), sorted(PITCHES))
            low = next(cut for cut in cuts if cut.id == "low")
            numpy.testing.assert_array_equal(low.load_audio()[0], self.pipeline["voice"][1]["audio"].array())
            self.assertEqual(low.supervisions[0].text, "Sana low sanottu.")

    @unittest.skipUnless(has("torch"), "torch is not installed")
    def test_a_loader_of_torch_with_workers_has_every_item(self):
        import torch.utils.data

        loader = torch.utils.data.DataLoader(
            self.pipeline["voice"], num_workers=2, batch_size=2, collate_fn=lengths, multiprocessing_context="spawn"
        )
        self.assertEqual(sum(list(loader), []), [(item.id, len(item["audio"].array())) for item in self.pipeline["voice"]])

    def test_a_pickled_data_set_is_the_same(self):
        voice = self.pipeline["voice"]
        self.assertEqual(pickle.loads(pickle.dumps(voice)).digest, voice.digest)


def lengths(items):
    return [(item.id, len(item["audio"].array())) for item in items]


if __name__ == "__main__":
    unittest.main()
