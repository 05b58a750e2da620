"""Fetches a private libtorch for `throstle-torch`: the parts of the torch wheel that a program needs. Or the library
of the onnxruntime wheel.

    python3 setup.py TO VERSION cpu|cuda|player

Downloads resume where they ended, and are compared with the digests of the package index. Files get their final
names when they are complete. Needs only the standard library of Python: there may be no pip.
"""

import email.parser
import fcntl
import os
import platform
import re
import shutil
import sys
import zipfile
import zlib

from index import PYPI, Index, Problem, pip_setting, say
from versions import Invalid, Requirement, normal

# The package that only names others.
TOOLKIT = "cuda-toolkit"
# The packages that the libraries of torch load at their start, even without a GPU.
ALWAYS = ("nvidia-cuda-runtime", "nvidia-cuda-cupti")
WANTED = re.compile(r"torch/lib/.*\.so|torch/version\.py$|nvidia/.*\.so|[^/]*\.dist-info/METADATA$")
# The package of the form `player`, and what is needed of it: the library, and its licences.
PLAYER = "onnxruntime"
WANTED_OF_PLAYER = re.compile(r"onnxruntime/(capi/libonnxruntime\.so.*|LICENSE|ThirdPartyNotices\.txt)$")
# The libraries of torch that load those of CUDA or of Python.
ONLY_WITH_GPU = re.compile(r"torch/lib/lib(torch|torch_python|shm|.*cuda.*|.*nvrtc.*|.*nvshmem.*)\.so")


def requirements(folder, package, extras, environment):
    """The requirements of an unpacked wheel with these extras on this machine."""
    infos = [name for name in os.listdir(folder) if name.endswith(".dist-info")]
    infos = [name for name in infos if normal(name.partition("-")[0]) == package]
    if not infos:
        raise Problem(f"the wheel of {package} has no metadata")
    with open(os.path.join(folder, infos[0], "METADATA"), encoding="utf-8", errors="replace") as file:
        lines = email.parser.HeaderParser().parse(file).get_all("Requires-Dist") or []
    for line in lines:
        try:
            requirement = Requirement(line)
            if any(requirement.applies({**environment, "extra": extra}) for extra in ["", *extras]):
                yield requirement
        except Invalid as invalid:
            raise Problem(f"a requirement of {package} cannot be read: {invalid}") from None


def environment_of(wheel):
    """The variables of markers on this machine. The Python is that of the wheel, not the one that runs this program: no
    Python will load the libraries."""
    major, minor = wheel.python_version() or sys.version_info[:2]
    return {
        "python_version": f"{major}.{minor}", "python_full_version": f"{major}.{minor}.0",
        "implementation_name": "cpython", "implementation_version": f"{major}.{minor}.0",
        "platform_python_implementation": "CPython", "os_name": os.name, "sys_platform": sys.platform,
        "platform_system": platform.system(), "platform_machine": platform.machine(),
        "platform_release": platform.release(), "platform_version": platform.version(), "extra": "",
    }


class Installation:
    """The downloads, and the folder that gets its final name at the end."""

    def __init__(self, to, form, index):
        self.to, self.form, self.has_gpu, self.index = to, form, form == "cuda", index
        self.fetched, self.staging = f"{to}.wheels", f"{to}.part"

    def run(self, version):
        if waited_for(self.fetched) and os.path.isdir(self.to):
            return
        shutil.rmtree(self.staging, ignore_errors=True)
        os.makedirs(self.staging)
        if self.form == "player":
            self.take(Requirement(f"{PLAYER}=={version}"))
        else:
            self.take_torch(version)
        # The files must reach the disk before their names do.
        os.sync()
        shutil.rmtree(self.to, ignore_errors=True)
        os.replace(self.staging, self.to)
        shutil.rmtree(self.fetched, ignore_errors=True)

    def take_torch(self, version):
        environment = environment_of(self.take(Requirement(f"torch=={version}")))
        taken = {"torch"}
        waiting = list(requirements(self.staging, "torch", [], environment))
        while waiting:
            requirement = waiting.pop(0)
            if requirement.name in taken or not self.is_needed(requirement.name):
                continue
            taken.add(requirement.name)
            self.take(requirement)
            waiting += requirements(self.staging, requirement.name, requirement.extras, environment)

    def is_needed(self, package):
        return package == TOOLKIT or package.startswith("nvidia-" if self.has_gpu else ALWAYS)

    def is_wanted(self, name):
        if self.form == "player":
            return WANTED_OF_PLAYER.match(name)
        return WANTED.match(name) and (self.has_gpu or not ONLY_WITH_GPU.match(name))

    def take(self, requirement):
        wheel = self.index.choose(requirement.name, requirement.versions)
        path = os.path.join(self.fetched, wheel.file.name)
        self.index.download(wheel.file, path)
        self.unpack(path)
        say(f"{wheel.file.name}: ready")
        return wheel

    def unpack(self, path):
        """Unpacks the libraries of a wheel and the files with its version. No file is written outside of the folder."""
        try:
            with zipfile.ZipFile(path) as wheel:
                for entry in wheel.infolist():
                    name = os.path.normpath(entry.filename)
                    if name.startswith((os.sep, "..")):
                        raise Problem(f"`{os.path.basename(path)}` has the file `{entry.filename}` outside its folder")
                    if self.is_wanted(name) and not entry.is_dir():
                        wheel.extract(entry, self.staging)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError):
            raise Problem(f"`{os.path.basename(path)}` is not a wheel that can be read") from None


def waited_for(folder):
    """Locks the folder of the downloads until this process ends; true if another process had it until now."""
    has_waited = False
    while True:
        os.makedirs(folder, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another `throstle setup` to finish")
            fcntl.flock(lock, fcntl.LOCK_EX)
            has_waited = True
        # The process before may have removed the folder.
        if os.path.isdir(folder) and os.path.samestat(os.fstat(lock), os.stat(folder)):
            return has_waited
        os.close(lock)


def main(to, version, form):
    """Returns the exit code."""
    try:
        address = pip_setting("index_url") or os.environ.get("UV_DEFAULT_INDEX") or PYPI
        Installation(to, form, Index(address)).run(version)
        return 0
    except Problem as problem:
        say(str(problem))
    except OSError as error:
        say(f"`{error.filename or to}` cannot be written: {error.strerror}")
    except KeyboardInterrupt:
        say("stopped: run again to continue")
        return 130
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
