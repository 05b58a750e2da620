"""Makes the fixtures beside this file with the libraries of other projects.

Run with: pip install protobuf pyarrow && python3 make.py
The tests need only the files.
"""

import pathlib
import struct

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


protos()
parquet("snappy.parquet", compression="snappy")
parquet("snappy_pages_2.parquet", compression="snappy", data_page_version="2.0")
parquet("gzip.parquet", compression="gzip")
