"""Reads the data sets of a pipeline: items as mappings, their bytes mapped from the cache.

    voice = throstle.open("pipelines/demo")["voice"]
    voice[0]["text"], voice[0]["audio"].view, voice[0]["audio"].array()

The program `throstle` lists the items and where their bytes are; nothing is copied. As long as a data set
is open, `throstle cache gc` keeps its objects. Needs only the standard library, except where a method says so.
"""

import collections.abc
import fcntl
import hashlib
import io
import json
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import weakref

from . import formats

PROGRAM = "throstle"


class Error(Exception):
    """An error message of `throstle`, or an object that no longer exists."""


def program():
    """`$THROSTLE`, the program of this environment, or the one on the search path."""
    own = os.path.join(os.path.dirname(sys.executable), PROGRAM)
    for path in (os.environ.get("THROSTLE"), own, shutil.which(PROGRAM)):
        if path and os.access(path, os.X_OK):
            return path
    raise Error("the program `throstle` was not found: install it, or set THROSTLE to its path")


def call(*arguments):
    run = subprocess.run([program(), *arguments], capture_output=True, check=False)
    if run.returncode != 0:
        raise Error(run.stderr.decode("utf-8", "replace").strip())
    return run.stdout


def open(manifest=".", cache=None, settings=()):  # noqa: A001
    """Opens a pipeline by its manifest or the folder of the manifest. `settings` are values for `--set`."""
    return Pipeline(manifest, cache, settings)


class Pipeline(collections.abc.Mapping):
    """The stages of a pipeline by name; also `stage.port` for outputs other than the first."""

    def __init__(self, manifest, cache, settings):
        self.options = ["--manifest", os.fspath(manifest)]
        if cache is not None:
            self.options += ["--cache", os.fspath(cache)]
        for setting in settings:
            self.options += ["--set", setting]
        arguments = [option for option in self.options[2:]]
        told = call("status", os.fspath(manifest), "--json", *arguments)
        told = json.loads(told)
        self.stages, self.cache = list(told["stages"]), told["cache"]

    def __getitem__(self, stage):
        if stage not in self.stages and stage.rpartition(".")[0] not in self.stages:
            raise KeyError(stage)
        return Dataset(stage, self.options, self.cache)

    def __iter__(self):
        return iter(self.stages)

    def __len__(self):
        return len(self.stages)


class Lease:
    """Protects objects from `gc`: a locked file in the cache names them."""

    def __init__(self, cache):
        self.folder, self.file = os.path.join(cache, "locks"), None
        self.gate = None

    def __enter__(self):
        try:
            self.gate = os.open(os.path.join(self.folder, "readers"), os.O_RDWR | os.O_CREAT, 0o666)
            fcntl.flock(self.gate, fcntl.LOCK_SH)
        except OSError:
            # Nobody removes anything from a cache that cannot be written.
            self.gate = None
        return self

    def keep(self, digests):
        if self.gate is None:
            return
        descriptor, self.path = tempfile.mkstemp(prefix="lease-", dir=self.folder)
        self.file = os.fdopen(descriptor, "w")
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        self.file.write("".join(f"{digest}\n" for digest in digests))
        self.file.flush()

    def __exit__(self, *_):
        if self.gate is not None:
            os.close(self.gate)

    def close(self, process):
        # A forked process has the same lock, which its parent still needs.
        if self.file is not None and process == os.getpid():
            os.unlink(self.path)
            self.file.close()
        self.file = None


class Dataset(collections.abc.Sequence):
    """The items that a stage outputs, in the order of their ids.

    Picklable: each process maps the files by itself, so it may be the data set of a torch `DataLoader`.
    """

    def __init__(self, stage, options, cache):
        self.stage, self.options, self.cache = stage, options, cache
        self.load()

    def load(self):
        self.maps, self.guard = {}, threading.Lock()
        lease = Lease(self.cache)
        with lease:
            text = call("items", self.stage, "--format", "places", *self.options)
            head, *lines = text.splitlines()
            self.rows = [json.loads(line) for line in lines]
            lease.keep(value["digest"] for row in self.rows for value in blobs(row))
        self.fields = json.loads(head)["fields"]
        self.digest = hashlib.sha256(canonical(self.rows)).hexdigest()
        self.lease = lease
        self.end = weakref.finalize(self, Lease.close, lease, os.getpid())

    def close(self):
        """Ends the lease; views that are still in use stay valid."""
        self.end()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __getstate__(self):
        return {"stage": self.stage, "options": self.options, "cache": self.cache, "digest": self.digest}

    def __setstate__(self, state):
        self.stage, self.options, self.cache = state["stage"], state["options"], state["cache"]
        self.load()
        if self.digest != state["digest"]:
            raise Error(f"the output of `{self.stage}` changed meanwhile")

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, at):
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        return Item(self, self.rows[at])

    def __repr__(self):
        return f"<{len(self)} items of `{self.stage}`: {', '.join(self.fields)}>"

    def view(self, value):
        """The mapped bytes of a blob."""
        if value["size"] == 0:
            return memoryview(b"")
        if "file" not in value:
            raise Error(f"object {value['digest'][:12]} is gone: `throstle run` makes it again")
        whole = self.mapped(value["file"])
        if value["offset"] + value["size"] > len(whole):
            raise Error(f"`{value['file']}` was truncated: open the data set again")
        return whole[value["offset"] : value["offset"] + value["size"]]

    def mapped(self, path):
        with self.guard:
            if path not in self.maps:
                try:
                    with io.open(path, "rb") as file:
                        self.maps[path] = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
                except FileNotFoundError:
                    raise Error(f"`{path}` no longer exists, for example after `throstle cache gc`: open the data set again") from None
            return self.maps[path]

    # Other forms.

    def table(self):
        """A pyarrow table of texts and numbers, with blobs as their digests. Needs pyarrow."""
        import pyarrow.parquet

        return pyarrow.parquet.read_table(io.BytesIO(call("items", self.stage, "--format", "parquet", *self.options)))

    def to_pandas(self):
        """A data frame of texts and numbers. Needs pandas."""
        import pandas

        rows = [{name: item.get(name) for name in ["id", *self.fields]} for item in self]
        return pandas.DataFrame([{name: plain(value) for name, value in row.items()} for row in rows])

    def to_hf(self):
        """A `datasets.Dataset`; audio becomes `Audio()`, other blobs their bytes. Needs `datasets`."""
        return formats.to_hf(self)

    def to_webdataset(self, pattern="%06d.tar", most=1 << 30):
        """Tar files such as `out/%06d.tar` of about this many bytes. Returns their paths."""
        return formats.to_webdataset(self, os.fspath(pattern), most)

    def to_shar(self, folder, shard=1000):
        """Shards for lhotse: `CutSet.from_shar`. Needs audio as WAV. Returns the paths of the files."""
        return formats.to_shar(self, os.fspath(folder), shard)


class Item(collections.abc.Mapping):
    """One item: its fields by name, and its `id`."""

    def __init__(self, dataset, row):
        self.dataset, self.row, self.id = dataset, row, row["id"]

    def __getitem__(self, name):
        if name == "id":
            return self.id
        value = self.row["fields"][name]
        return Blob(self.dataset, value) if isinstance(value, dict) else number_of(value)

    def __iter__(self):
        return iter(["id", *(name for name in self.row["fields"] if name != "id")])

    def __len__(self):
        return len(list(iter(self)))

    def __repr__(self):
        return f"Item({dict(self)!r})"


class Blob:
    """The bytes of a field: `kind`, `size`, `digest`, and the bytes themselves."""

    def __init__(self, dataset, value):
        self.dataset, self.value = dataset, value
        self.kind, self.size, self.digest = value["kind"], value["size"], value["digest"]

    @property
    def view(self):
        """The bytes, mapped and not copied."""
        return self.dataset.view(self.value)

    @property
    def bytes(self):
        return bytes(self.view)

    @property
    def path(self):
        """A file with these bytes, to be read only: in the cache, or a copy that lives as long as this process."""
        if self.value.get("offset") == 0 and self.size and os.path.getsize(self.value["file"]) == self.size:
            return self.value["file"]
        path = os.path.join(copies(), f"{self.digest}.{formats.extension(self)}")
        if not os.path.exists(path):
            part = f"{path}.{threading.get_ident()}"
            with io.open(part, "wb") as file:
                file.write(self.view)
            os.replace(part, path)
        return path

    def array(self):
        """The samples of a WAV file as float32 (frames, or frames x channels), or a .npy array. Needs numpy."""
        return formats.array(self)

    @property
    def rate(self):
        """The sampling rate of a WAV file."""
        return formats.wav(self.view)[0]

    def __len__(self):
        return self.size

    def __repr__(self):
        return f"<{self.kind}, {self.size} bytes>"


def number_of(value):
    return float(value["number"]) if isinstance(value, list) else value


def plain(value):
    return value.digest if isinstance(value, Blob) else value


def blobs(row):
    return [value for value in row["fields"].values() if isinstance(value, dict)]


def canonical(rows):
    """The items as JSON, without the positions of their bytes."""
    hidden = ("file", "offset")
    shown = [
        [row["id"], {name: {k: v for k, v in value.items() if k not in hidden} if isinstance(value, dict) else value
                     for name, value in row["fields"].items()}]
        for row in rows
    ]
    return json.dumps(shown, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass")


COPIES = []


def copies():
    """A folder that is removed when this process ends."""
    if not COPIES or COPIES[0][0] != os.getpid():
        folder = tempfile.TemporaryDirectory(prefix="throstle-")
        COPIES[:] = [(os.getpid(), folder)]
    return COPIES[0][1].name
