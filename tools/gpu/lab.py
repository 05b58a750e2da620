"""The environment of the parts: the programs, the device, the folder of results, and the time left."""

import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "stages/torch/fixtures"
BENCHES = ROOT / "stages/torch/benches"
DEMO = ROOT / "pipelines/demo"


class NotRun(Exception):
    """A part that this machine cannot run, with the reason."""


class Failed(Exception):
    """A part with a wrong result; `figures` are what it found."""

    def __init__(self, reason, figures=None):
        super().__init__(reason)
        self.figures = figures


class Ran:
    """A finished run of `throstle run --json`."""

    def __init__(self, code, lines, errors, seconds):
        self.code, self.errors, self.seconds = code, errors, seconds
        self.events = [json.loads(line) for line in lines if line.endswith("}\n")]

    def all(self, name):
        return [event for event in self.events if event["event"] == name]

    def losses(self, stage="trained"):
        """The loss of each step."""
        metrics = [event for event in self.all("metrics") if event["stage"] == stage]
        return {event["step"]: event["values"]["loss"] for event in metrics
                if event["values"].get("loss") is not None}

    def problem(self):
        """The messages about what went wrong, else the end of what was printed."""
        failed = [f"{event['stage']}: {event['message']}" for event in self.all("stage-failed")]
        failed += [event["message"] for event in self.all("worker-died")]
        failed += [event["why"] for event in self.all("stopping")]
        return "; ".join(failed) or self.errors.strip()[-400:] or f"exit code {self.code}"

    def check(self):
        if self.code != 0:
            raise Failed(f"exit code {self.code}: {self.problem()}")
        return self


class Lab:
    def __init__(self, options):
        self.on_cpu = options.cpu
        self.device = "cpu" if options.cpu else "cuda:0"
        self.programs = pathlib.Path(options.programs).resolve() if options.programs else found()
        self.throstle, self.worker = self.programs / "throstle", self.programs / "throstle-torch"
        for program in (self.throstle, self.worker):
            if not os.access(program, os.X_OK):
                raise SystemExit(f"there is no `{program}`: `make build` makes it")
        self.out = pathlib.Path(options.out).resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.original, self.size = options.original, options.size
        self.end = time.monotonic() + 60 * options.minutes
        self.machine = {}
        self.environment = dict(os.environ)
        if options.cpu:
            # With the devices hidden, `auto` means the processor.
            self.environment["CUDA_VISIBLE_DEVICES"] = ""
        # `throstle` finds the libraries for its worker; other programs are started directly.
        libtorch = self.environment.get("LIBTORCH")
        paths = [f"{libtorch}/lib"] if libtorch else []
        paths += [path for path in [self.environment.get("LD_LIBRARY_PATH")] if path]
        self.direct = self.environment | ({"LD_LIBRARY_PATH": ":".join(paths)} if paths else {})

    def left(self):
        return self.end - time.monotonic()

    def gpus(self):
        return [device for device in self.machine.get("devices", []) if device["name"] != "cpu"]

    def folder(self, name):
        """An empty folder for the work of a part, which a killed one may have left."""
        folder = self.out / f"work-{name}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    def output(self, words, environment=None, **more):
        """Runs a program to its end."""
        words = [str(word) for word in words]
        try:
            return subprocess.run(words, env=environment or self.direct, text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=max(1, self.left()), **more)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"`{pathlib.Path(words[0]).name}` was stopped: time limit reached") from error

    def program(self, name):
        """A benchmark program, which a build may lack."""
        program = self.programs / name
        if not os.access(program, os.X_OK):
            raise NotRun(f"there is no `{name}` beside `throstle`: `make bench-programs` makes it")
        return program

    def run(self, folder, manifest="pipeline.toml", memory=None, **environment):
        """Runs a manifest with a cache of its own; `memory` limits the address space."""
        begin = time.monotonic()
        words = [self.throstle, "run", folder / manifest, "--cache", folder / f"cache-{manifest}",
                 "--json"]

        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

        done = self.output(words, self.environment | environment,
                           preexec_fn=limit if memory else None)
        lines = done.stdout.splitlines(keepends=True)
        return Ran(done.returncode, lines, done.stderr, time.monotonic() - begin)

    def run_and_kill(self, folder, event, manifest="pipeline.toml"):
        """The same, killed with its worker right after an event; fails if it ends before."""
        words = [self.throstle, "run", folder / manifest, "--cache", folder / f"cache-{manifest}",
                 "--json"]
        begin, lines = time.monotonic(), []
        process = subprocess.Popen([str(word) for word in words], env=self.environment, text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        limit = threading.Timer(max(1, self.left()), os.killpg, (process.pid, signal.SIGKILL))
        limit.start()
        try:
            for line in process.stdout:
                lines.append(line)
                if json.loads(line)["event"] == event:
                    os.killpg(process.pid, signal.SIGKILL)
                    break
        finally:
            limit.cancel()
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()
        if self.left() <= 0:
            raise Failed(f"`{self.throstle.name}` was stopped: time limit reached")
        if process.returncode == 0:
            raise Failed(f"the run ended before `{event}`")
        return Ran(process.returncode, lines, "", time.monotonic() - begin)


def found():
    """The programs of a parcel, else of a build."""
    for folder in (ROOT / "bin", ROOT / "target/release", ROOT / "target/debug"):
        if os.access(folder / "throstle", os.X_OK):
            return folder
    raise SystemExit("there are no programs: `make build` makes them")


def demo_in(folder):
    """A copy of the demo without its results."""
    for name in ("data", "pipeline.toml", "vits.toml", "xtts.toml"):
        source = DEMO / name
        if source.is_dir():
            shutil.copytree(source, folder / name, dirs_exist_ok=True)
        else:
            shutil.copy(source, folder / name)
    return folder


def say(text):
    print(text, flush=True)


def log(text):
    print(text, file=sys.stderr, flush=True)
