"""Converts the bytes of blobs to arrays, and data sets to the formats of other programs."""

import gzip
import io
import json
import os
import struct
import tarfile


def extension(blob):
    """The file extension: WAV files are recognised by their first bytes, others by their kind."""
    if bytes(blob.view[:4]) == b"RIFF":
        return "wav"
    last = blob.kind.rpartition("/")[2]
    return "".join(letter for letter in last if letter.isalnum() and letter.isascii()) or "bin"


# Arrays.


def wav(view):
    """Rate, channels, format tag, bits and the mapped samples of a WAV file."""
    if bytes(view[:4]) != b"RIFF" or bytes(view[8:12]) != b"WAVE":
        raise ValueError("it is not a WAV file")
    at, form = 12, None
    while at + 8 <= len(view):
        name, size = bytes(view[at : at + 4]), struct.unpack_from("<I", view, at + 4)[0]
        inside = view[at + 8 : at + 8 + size]
        if name == b"fmt ":
            tag, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", inside)
            # In the extensible format, the tag is the beginning of the GUID.
            form = (struct.unpack_from("<H", inside, 24)[0] if tag == 0xFFFE else tag, channels, rate, bits)
        if name == b"data" and form is not None:
            tag, channels, rate, bits = form
            return rate, channels, tag, bits, inside
        at += 8 + size + size % 2
    raise ValueError("the WAV file has no samples")


def array(blob):
    import numpy

    if bytes(blob.view[:6]) == b"\x93NUMPY":
        return numpy.load(io.BytesIO(blob.view), allow_pickle=False)
    rate, channels, tag, bits, data = wav(blob.view)
    width = channels * bits // 8
    data = data[: len(data) - len(data) % width]
    if tag == 3 and bits in (32, 64):
        samples = numpy.frombuffer(data, f"<f{bits // 8}").astype(numpy.float32)
    elif tag == 1 and bits == 24:
        raw = numpy.frombuffer(data, numpy.uint8).reshape(-1, 3).astype(numpy.int32)
        whole = (raw[:, 0] << 8) | (raw[:, 1] << 16) | (raw[:, 2] << 24)
        samples = whole.astype(numpy.float32) / numpy.float32(1 << 31)
    elif tag == 1 and bits in (16, 32):
        samples = numpy.frombuffer(data, f"<i{bits // 8}").astype(numpy.float32) / numpy.float32(1 << (bits - 1))
    elif tag == 1 and bits == 8:
        samples = (numpy.frombuffer(data, numpy.uint8).astype(numpy.float32) - 128) / 128
    else:
        raise ValueError(f"WAV with {bits} bits of format {tag} is not supported")
    return samples if channels == 1 else samples.reshape(-1, channels)


# Hugging Face.


def to_hf(dataset):
    import datasets

    kinds = {name: "audio" for item in dataset for name in dataset.fields if is_audio(item.get(name))}
    rows = {"id": [item.id for item in dataset]}
    for name in (name for name in dataset.fields if name != "id"):
        rows[name] = [column(item.get(name), name in kinds) for item in dataset]
    made = datasets.Dataset.from_dict(rows)
    for name in kinds:
        made = made.cast_column(name, datasets.Audio())
    return made


def column(value, audio):
    if not hasattr(value, "view"):
        return value
    return {"bytes": value.bytes, "path": f"{value.digest}.{extension(value)}"} if audio else value.bytes


def is_audio(value):
    return hasattr(value, "view") and (value.kind == "audio" or value.kind.startswith("audio/"))


# WebDataset.


def to_webdataset(dataset, pattern, most):
    """A shard is closed when the next item would exceed its size."""
    paths, tar, size, names = [], None, 0, Names()
    os.makedirs(os.path.dirname(pattern) or ".", exist_ok=True)
    for item in dataset:
        entries = list(sample(item))
        weight = sum(len(data) + 1024 for _, data in entries)
        if tar is None or (size and size + weight > most):
            if tar is not None:
                tar.close()
            paths.append(pattern % len(paths))
            tar, size = tarfile.open(paths[-1] + ".part", "w", format=tarfile.PAX_FORMAT), 0
        name = names.of(item.id)
        for suffix, data in entries:
            add(tar, f"{name}.{suffix}", data)
        size += weight
    if tar is not None:
        tar.close()
    for path in paths:
        os.replace(path + ".part", path)
    return paths


def sample(item):
    """The files of a sample: each blob, and the rest as JSON. Field names have no dots there."""
    rest = {"id": item.id}
    for name in item:
        value = item[name]
        if hasattr(value, "view"):
            yield f"{plain_name(name)}.{extension(value)}", value.view
        else:
            rest[name] = value
    yield "json", json.dumps(rest, ensure_ascii=False).encode("utf-8", "surrogatepass")


def plain_name(text):
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in text) or "_"


class Names:
    """Unique names of samples, without dots and slashes."""

    def __init__(self):
        self.used = set()

    def of(self, name):
        wanted = plain_name(name)
        while wanted in self.used:
            wanted += "_"
        self.used.add(wanted)
        return wanted


def add(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


# Lhotse.


def to_shar(dataset, folder, shard):
    """Writes `cuts.000000.jsonl.gz` and `recording.000000.tar`.

    Texts and numbers are in `custom`; blobs other than the recordings are left out.
    """
    os.makedirs(folder, exist_ok=True)
    names, paths = Names(), []
    audio = next((name for name in dataset.fields if any(is_audio(item.get(name)) for item in dataset)), None)
    if audio is None:
        raise ValueError("no field has audio")
    for number, start in enumerate(range(0, len(dataset), shard)):
        cuts, tar_path = f"{folder}/cuts.{number:06}.jsonl.gz", f"{folder}/recording.{number:06}.tar"
        with gzip.GzipFile(cuts, "wb", mtime=0) as lines, tarfile.open(tar_path, "w", format=tarfile.PAX_FORMAT) as tar:
            for item in dataset[start : start + shard]:
                cut, recording = cut_of(item, names.of(item.id), audio)
                lines.write(json.dumps(cut, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
                add(tar, f"{cut['id']}.wav", item[audio].view)
                add(tar, f"{cut['id']}.json", json.dumps(recording, ensure_ascii=False).encode())
        paths += [cuts, tar_path]
    return paths


def cut_of(item, name, audio):
    rate, channels, _, bits, data = wav(item[audio].view)
    frames = len(data) // (channels * bits // 8)
    duration = frames / rate
    every = list(range(channels))
    recording = {
        "id": name, "sources": [{"type": "shar", "channels": every, "source": ""}],
        "sampling_rate": rate, "num_samples": frames, "duration": duration, "channel_ids": every,
    }
    custom = {field: item[field] for field in item if not hasattr(item[field], "view")}
    text, speaker = custom.get("text"), custom.get("speaker")
    supervision = {
        "id": name, "recording_id": name, "start": 0.0, "duration": duration,
        "channel": 0 if channels == 1 else every, "text": text, "speaker": speaker,
    }
    cut = {
        "id": name, "start": 0.0, "duration": duration, "channel": 0 if channels == 1 else every,
        "supervisions": [{key: value for key, value in supervision.items() if value is not None}],
        "recording": recording, "custom": custom, "type": "MonoCut" if channels == 1 else "MultiCut",
    }
    return cut, recording
