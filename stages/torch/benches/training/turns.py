"""Compares training steps of our program and the original code, alternating step by step, so that
other load on the machine slows all alike. Each switch alone, then all together, on the same weights
and data. Prints a table in Markdown.

    turns.py PROGRAM [--families dual_ar,vits,xtts] [--size tiny|small|published] [--rounds 5]
             [--threads 2] [--gpu 0] [--one-at-a-time] [--ahead 3] [--alone] [--only plain,bf16]
             [--json FILE]

`--alone` leaves the original code out: then this needs Python only, and our program draws the weights.
Exit code 1 if no row was measured.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import data

HERE = pathlib.Path(__file__).parent
FAMILIES = {"dual_ar": "Fish Speech (DualAR)", "vits": "VITS", "xtts": "XTTS v2 (GPT)"}

OUT_OF_MEMORY = "out of memory"

PLAIN = dict(precision="f32", attention="math", checkpointing=False, packing=False, fused=False)
ORIGINAL = dict(precision="f32")


def rows_of(family, on_gpu):
    """(side, label, options) by family; unsupported options of a device are left out."""
    half = "bf16"
    switches = {
        "checkpointing": dict(checkpointing=True),
        "fused optimiser": dict(fused=True),
        half: dict(precision=half),
    }
    if on_gpu:
        switches["fp16"] = dict(precision="fp16")
    together = dict(fused=True, precision=half if on_gpu else "f32")
    original = [("as it comes", ORIGINAL), ("fused optimiser", ORIGINAL | dict(fused=True)),
                (half, ORIGINAL | dict(precision=half))]
    if family == "vits":
        # VITS has small relative attention, convolutions without TF32, and one clip per row: these
        # switches do not exist. Checkpointing decodes the sound again for the second phase.
        switches["made again for the generator"] = switches.pop("checkpointing")
    else:
        # Dropout on attention weights needs them as a tensor; no fused kernel has one.
        fused = dict(attention="auto")
        if family == "xtts":
            fused |= dict(attention_dropout=0.0)
        switches |= {"SDPA": fused, "packing": dict(packing=True)}
        together |= fused | dict(packing=True)
        if on_gpu:
            switches["TF32"] = dict(precision="tf32")
        switches["LoRA"] = dict(rank=8)
        if family == "dual_ar":
            original.append(("LoRA", ORIGINAL | dict(rank=8)))
            original.append(("checkpointing", ORIGINAL | dict(checkpointing=True)))
    ours = [("plain", PLAIN)] + [(name, PLAIN | change) for name, change in switches.items()]
    ours += [("all together", PLAIN | together),
             ("all together, checkpointing", PLAIN | together | dict(checkpointing=True))]
    return [("original", *row) for row in original] + [("throstle", *row) for row in ours]


class Runner:
    """A process that answers each line with one line."""

    def __init__(self, words):
        pipe = subprocess.PIPE
        # Freed blocks go back to the system, so that a peak is that of a step. Kernels are compiled in
        # each process, as in a worker.
        environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "262144",
                                    "USE_PYTORCH_KERNEL_CACHE": "0", "RUST_BACKTRACE": "0"}
        self.errors = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=self.errors, text=True,
                                        errors="replace", bufsize=1, env=environment)

    def ask(self, work):
        before = self.processor_seconds()
        try:
            self.process.stdin.write(work + "\n")
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise ChildProcessError(self.reason(work))
        try:
            return json.loads(answer) | {"processor": self.processor_seconds() - before}
        except ValueError:
            raise ChildProcessError(f"`{work}` was answered with {answer[:80]!r}") from None

    def reason(self, work):
        """Why the process has ended; all that it printed goes to our own errors."""
        self.errors.seek(0)
        text = self.errors.read()
        sys.stderr.write(text)
        if "out of memory" in text.lower():
            return OUT_OF_MEMORY
        try:
            code = self.process.wait(10)
        except subprocess.TimeoutExpired:
            code = "none yet"
        text = f": {text.strip()[-400:]}" if text.strip() else ""
        return f"`{work}` ended the process, exit status {code}{text}".replace("\n", " ")

    def processor_seconds(self):
        # The name of the program may hold spaces.
        stat = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")

    def close(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.wait()


class Row:
    def __init__(self, family, side, label, words):
        self.family, self.side, self.label, self.words = family, side, label, words
        self.forget()

    def load(self):
        """Starts the process, which loads the model and waits for its first work."""
        if not self.runner:
            self.runner = Runner(self.words)

    def wait(self):
        """Waits until the model is loaded."""
        self.guarded(lambda: self.runner.ask("peak"))

    def forget(self):
        """As before the first step, with no process."""
        self.seconds, self.processor, self.losses = [], [], []
        self.runner, self.failure = None, None

    def start(self):
        self.load()
        # The first step fills the caches of the others.
        self.guarded(lambda: self.losses.append(self.runner.ask("step")["loss"]))
        self.guarded(lambda: self.runner.ask("reset"))

    def step(self):
        def work():
            answer = self.runner.ask("step")
            self.seconds.append(answer["seconds"]), self.losses.append(answer["loss"])
            self.processor.append(answer["processor"])
        self.guarded(work)

    def finish(self):
        self.guarded(lambda: setattr(self, "peak", self.runner.ask("peak")["bytes"]))
        # Only a family that answers has an estimate in the plan.
        self.planned = None
        if self.side == "throstle" and self.family == "xtts":
            self.guarded(lambda: setattr(self, "planned", self.runner.ask("plan")["bytes"]))
        self.runner.close()

    def guarded(self, work):
        if not self.failure:
            try:
                work()
            except ChildProcessError as error:
                self.failure = str(error)


def measure(rows, rounds, one_at_a_time, ahead):
    if one_at_a_time:
        together = ahead + 1
        for first in range(0, len(rows), together):
            measure_in_turn(rows[first:first + together], rounds)
        # Rows that ran out of memory are measured again, alone.
        for row in rows:
            if ahead and row.failure == OUT_OF_MEMORY:
                row.forget()
                measure_in_turn([row], rounds)
        return
    for row in rows:
        row.start()
    for number in range(rounds):
        for row in rows if number % 2 == 0 else rows[::-1]:
            row.step()
    for row in rows:
        row.finish()


def measure_in_turn(rows, rounds):
    """Measures one after the other. All models are loaded before, because loading uses every core."""
    for row in rows:
        row.load()
    for row in rows:
        row.wait()
    for row in rows:
        row.start()
        for _ in range(rounds):
            row.step()
        row.finish()
        print(f"{row.side}, {row.label}: {row.failure or row.seconds}", file=sys.stderr, flush=True)


def report(family, size, rows):
    print(f"\n### {FAMILIES[family]}, {size}\n")
    steps = len(rows[0].losses)
    print("| side | switches | a step | against the original | CPU time | against the original | "
          f"peak memory | loss, step 1 | loss, step {steps} |")
    print("|---|---|---|---|---|---|---|---|---|")
    # Without the original code nothing is compared with it.
    first = rows[0] if rows[0].side == "original" and rows[0].seconds else None
    for row in rows:
        if row.failure:
            print(f"| {row.side} | {row.label} | failed: {row.failure} | | | | | | |")
            continue
        low, middle, high = (statistics.quantiles(row.seconds, n=4) if len(row.seconds) > 1
                             else row.seconds * 3)
        ratio = first and f"{ratio_of(first.seconds, row.seconds):.2f}x as fast"
        processor = first and f"{ratio_of(first.processor, row.processor):.2f}x less"
        losses = [f"{loss:.4f}" if loss is not None else "none"
                  for loss in (row.losses[0], row.losses[-1])]
        print(f"| {row.side} | {row.label} | {middle:.3f} s ({low:.3f} to {high:.3f}) | "
              f"{ratio or 'not run'} | {statistics.median(row.processor):.2f} s | "
              f"{processor or 'not run'} | {row.peak / 1e6:.0f} MB{planned(row)} | {losses[0]} | "
              f"{losses[1]} |")
    sys.stdout.flush()


def ratio_of(first, own):
    """Both sides of a ratio are of the same round."""
    return statistics.median(one / other for one, other in zip(first, own))


def planned(row):
    """The estimate of the plan, for comparison with the measured figure."""
    if not row.planned:
        return ""
    return f" (plan: {row.planned / 1e6:.0f}, {100 * (row.planned / row.peak - 1):+.0f} %)"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--size", choices=["tiny", "small", "published"])
    parser.add_argument("--rounds", type=count, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--gpu", type=int)
    parser.add_argument("--one-at-a-time", action="store_true",
                        help="each row is measured alone, as always at the published size")
    parser.add_argument("--ahead", type=lambda text: count(text, least=0), default=0,
                        help="load as many further models before the first of them is measured")
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--only", help="rows whose label contains one of these texts")
    parser.add_argument("--json", type=pathlib.Path)
    a = parser.parse_args()
    if not os.access(a.program, os.X_OK) or os.path.isdir(a.program):
        parser.error(f"`{a.program}` is no program")
    if unknown := [family for family in a.families.split(",") if family not in FAMILIES]:
        parser.error(f"no family `{unknown[0]}`; there are {', '.join(FAMILIES)}")
    if a.json:
        # Before the measurement, which may take long.
        try:
            a.json.open("a").close()
        except OSError as error:
            parser.error(f"--json: {error}")
    size = a.size or ("small" if a.gpu is None else "published")
    # Processes of the published size do not fit beside each other.
    one_at_a_time = a.one_at_a_time or size == "published"
    results = []
    for family in a.families.split(","):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            if a.alone:
                data.make(folder, family, size)
            else:
                # One process per family: families replace modules that they do not need.
                subprocess.run([sys.executable, str(HERE / "family.py"), family, str(folder),
                                json.dumps({"make": size})], check=True)
            rows = []
            for side, label, options in rows_of(family, a.gpu is not None):
                if a.alone and side == "original":
                    continue
                if a.only and not any(part in label for part in a.only.split(",")):
                    continue
                options = options | {"threads": a.threads, "gpu": a.gpu}
                program = ([sys.executable, str(HERE / "family.py")] if side == "original"
                           else [a.program])
                words = [*program, family, str(folder), json.dumps(options)]
                rows.append(Row(family, side, label, words))
            if not rows:
                parser.error(f"no row of {family} has a label with `{a.only}`")
            measure(rows, a.rounds, one_at_a_time, a.ahead)
            report(family, size, rows)
            results += [dict(family=family, size=size, side=row.side, label=row.label,
                             seconds=row.seconds, processor=row.processor, losses=row.losses,
                             failure=row.failure, peak=getattr(row, "peak", None),
                             planned=getattr(row, "planned", None)) for row in rows]
    if a.json:
        a.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0 if any(row["seconds"] for row in results) else 1


def count(text, least=1):
    number = int(text)
    if number < least:
        raise argparse.ArgumentTypeError(f"expected at least {least}")
    return number


if __name__ == "__main__":
    sys.exit(main())
