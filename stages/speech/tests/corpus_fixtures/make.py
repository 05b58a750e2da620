"""Makes the fixtures beside this file with the libraries of other projects.

Run with: pip install protobuf pyarrow lhotse && python3 make.py
The tests need only the files.
"""

import pathlib
import struct

import lhotse
import pyarrow
import pyarrow.parquet
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

HERE = pathlib.Path(__file__).parent
FIELD = descriptor_pb2.FieldDescriptorProto


def message(file, name, *fields):
    entry = file.message_type.add(name=name)
    for field_name, number, kind, label, type_name in fields:
        entry.field.add(name=field_name, number=number, type=kind, label=label, type_name=type_name)


def text_data():
    """The message definition of Fish Speech: package text_data, proto3."""
    one, many = FIELD.LABEL_OPTIONAL, FIELD.LABEL_REPEATED
    file = descriptor_pb2.FileDescriptorProto(name="text_data.proto", package="text_data", syntax="proto3")
    message(file, "Semantics", ("values", 1, FIELD.TYPE_UINT32, many, None))
    message(
        file,
        "Sentence",
        ("texts", 1, FIELD.TYPE_STRING, many, None),
        ("semantics", 3, FIELD.TYPE_MESSAGE, many, ".text_data.Semantics"),
    )
    message(
        file,
        "TextData",
        ("source", 1, FIELD.TYPE_STRING, one, None),
        ("name", 2, FIELD.TYPE_STRING, one, None),
        ("sentences", 4, FIELD.TYPE_MESSAGE, many, ".text_data.Sentence"),
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("text_data.TextData"))


def codes(seed):
    """Ten codebooks of four frames, as `codes` in the test makes them."""
    return [[(seed * 1000 + row * 400 + frame * 131) % 4096 for frame in range(4)] for row in range(10)]


def protos():
    record = text_data()
    with open(HERE / "two_speakers.protos", "wb") as file:
        for speaker, clips in {"anna": ["a1", "a2"], "olli": ["b1"]}.items():
            data = record(source="folder", name=speaker)
            for clip in clips:
                sentence = data.sentences.add(texts=[f"Hyvää päivää {clip}"])
                for row in codes(ord(clip[0]) + int(clip[1])):
                    sentence.semantics.add(values=row)
            encoded = data.SerializeToString(deterministic=True)
            file.write(struct.pack("<I", len(encoded)) + encoded)


def parquet(name, **options):
    audio = [{"bytes": b"RIFF" + bytes([n] * 40), "path": f"clip{n}.wav"} for n in range(5)]
    audio[3] = {"bytes": None, "path": "clip3.wav"}
    table = pyarrow.table({
        "audio": pyarrow.array(audio, pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])),
        "sentence": ["Yksi", "Kaksi", "Kolme", "Neljä", "Viisi"],
        "client_id": ["anna", "olli", "anna", "olli", None],
        "age": pyarrow.array([20, 30, None, 40, 50], pyarrow.int32()),
        "tags": [["x"], [], None, ["y", "z"], ["x"]],
    })
    pyarrow.parquet.write_table(table, HERE / name, row_group_size=2, **options)


def cuts():
    """Two recordings with two supervisions each, the second one with a supervision per channel."""

    def recording(name, channels):
        source = lhotse.audio.AudioSource("file", list(range(channels)), f"{name}.wav")
        return lhotse.Recording(name, [source], sampling_rate=16000, num_samples=32000, duration=2.0)

    def supervision(name, recording, start, duration, text, channel=0):
        return lhotse.SupervisionSegment(
            name, recording, start, duration, channel=channel, text=text, speaker=f"speaker{channel}"
        )

    recordings = lhotse.RecordingSet.from_recordings([recording("mono", 1), recording("stereo", 2)])
    supervisions = lhotse.SupervisionSet.from_segments([
        supervision("m1", "mono", 0.25, 0.5, "Yksi"),
        supervision("m2", "mono", 1.0, 0.75, "Kaksi"),
        supervision("s1", "stereo", 0.5, 1.0, "Kolme"),
        supervision("s2", "stereo", 0.5, 1.0, "Neljä", channel=1),
    ])
    whole = lhotse.CutSet.from_manifests(recordings=recordings, supervisions=supervisions)
    whole.to_file(HERE / "cuts.jsonl.gz")
    trimmed = list(whole.trim_to_supervisions(keep_overlapping=False))
    others = [trimmed[0], trimmed[0].append(trimmed[1], preserve_id="left"), trimmed[0].perturb_speed(1.1)]
    lhotse.CutSet.from_cuts(others).to_file(HERE / "other_cuts.jsonl")


cuts()
protos()
parquet("snappy.parquet", compression="snappy")
parquet("snappy_pages_2.parquet", compression="snappy", data_page_version="2.0")
parquet("gzip.parquet", compression="gzip")
