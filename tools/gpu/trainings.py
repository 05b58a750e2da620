"""Trainings by `throstle` itself: killed, without memory, on two devices, and against the plan."""

import string

from lab import Failed, NotRun, demo_in

CLIPS = """
[pipeline]
name = "gpu"
seed = 1

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

[stage.checked]
use = "audio.check"
input = "clips"
min_duration = "600ms"
max_duration = "11s"

[stage.voice]
use = "audio.resample"
input = "checked"
rate = "$rate"

[stage.spoken]
use = "text.normalize"
input = "voice"
numbers = "fi"
"""
TRAINED = """
[stage.trained]
use = "$family.finetune"
input = "$input"
base = "untrained"
steps = $steps
warm_up = 0
batch = $batch
precision = "$precision"
$devices
validation_fraction = 0.0
save_every = $save_every
preflight = false
"""
FISH = CLIPS + """
[stage.codec]
use = "vq.fit"
input = "spoken"
codebooks = 4
entries = 32
clips = 8

[stage.tokens]
use = "vq.encode"
input = "spoken"
codec = "codec"

[stage.untrained]
use = "fish.init"
codec = "codec"
$sizes
""" + TRAINED + "gradient_checkpointing = $checkpointing\nmax_length = $length\n"
VITS = CLIPS + """
[stage.untrained]
use = "vits.init"
$sizes
""" + TRAINED
XTTS = CLIPS + """
[stage.untrained]
use = "xtts.init"
languages = "en"
$sizes

[stage.tokens]
use = "vq.encode"
input = "spoken"
codec = "untrained"
""" + TRAINED + 'language = "en"\n'
FAMILIES = {
    "fish": (FISH, dict(rate="16kHz", input="tokens")),
    "vits": (VITS, dict(rate="16kHz", input="spoken")),
    "xtts": (XTTS, dict(rate="22050Hz", input="tokens")),
}
DEFAULTS = dict(steps=4, batch=2, precision="auto", devices="", save_every=0, length=320,
                checkpointing="true")
TINY = {
    "fish": "layers = 1\ndim = 32\nheads = 2",
    "vits": "hidden = 16\nlayers = 1\nchannels = 16",
    "xtts": "layers = 1\nwidth = 32\nheads = 2",
}


def project(folder, family, sizes, **changes):
    """A manifest of a training beside the clips of the demo."""
    template, own = FAMILIES[family]
    values = DEFAULTS | own | changes
    text = string.Template(template).substitute(values, family=family, sizes=sizes)
    folder.mkdir(exist_ok=True)
    demo_in(folder)
    (folder / "pipeline.toml").write_text(text)
    return folder


# The largest relative difference of the loss of a step, of a resumed training or one on two devices,
# in f32. On the processor a resumed one has the same bits. The two networks of VITS follow each other,
# and an alignment that flips changes both.
BOUNDS = {"fish": 1e-3, "vits": 5e-2, "xtts": 1e-3}


def difference(one, other):
    """The largest relative difference of the losses of all steps."""
    if not one or one.keys() != other.keys():
        raise Failed(f"the steps differ: {sorted(one)} and {sorted(other)}")
    return max(abs(one[step] - other[step]) / max(abs(one[step]), 1e-6) for step in one)


def resume(lab):
    """Trainings that are killed after their first checkpoint go on as if they had not been killed."""
    work, results = lab.folder("resume"), {}
    for family, sizes in TINY.items():
        changes = dict(steps=8, save_every=3, precision="f32")
        straight = project(work / f"{family}-straight", family, sizes, **changes)
        killed = project(work / f"{family}-killed", family, sizes, **changes)
        expected = lab.run(straight).check().losses()
        first = lab.run_and_kill(killed, "checkpoint-kept")
        second = lab.run(killed).check()
        begin = min(second.losses(), default=0)
        if begin <= 1:
            raise Failed(f"{family}: the training began anew after it was killed")
        found = difference(expected, first.losses() | second.losses())
        bound = 0.0 if lab.on_cpu else BOUNDS[family]
        results[family] = {"resumed_at": begin, "difference": found, "bound": bound}
        if found > bound:
            raise Failed(f"{family}: losses differ by {found:.1e}, more than {bound:.0e}", results)
    return results


def out_of_memory(lab):
    """A training that does not fit says so, and leaves nothing that a later run would use."""
    sizes = "layers = 2\ndim = 768" if lab.on_cpu else 'shape = "s1-mini"'
    folder = project(lab.folder("out-of-memory"), "fish", sizes, steps=2)
    if lab.on_cpu:
        limit = least_memory(lab)
        limited = lab.run(folder, memory=limit)
    else:
        limit = 1_500_000_000
        share = limit / lab.gpus()[0]["memory_total"]
        limited = lab.run(folder, PYTORCH_ALLOC_CONF=f"per_process_memory_fraction:{share:.6f}")
    told = limited.problem()
    results = {"limit_bytes": limit, "code": limited.code, "told": told}
    if limited.code == 0:
        raise Failed("the training fits into the memory that should be too small", results)
    if limited.code not in (1, 75) or "memory" not in told:
        raise Failed(f"no message about memory, exit code {limited.code}: {told}", results)
    # The whole model takes minutes; a small one with the same cache shows that the next run works.
    project(folder, "fish", TINY["fish"], steps=2)
    again = lab.run(folder).check()
    results["again"] = sorted(again.losses())
    if not again.losses():
        raise Failed("the run after it trained nothing", results)
    return results


def least_memory(lab):
    """The address space in which the worker starts, and little more."""
    def starts(megabytes):
        shell = f"ulimit -v {megabytes << 10} && exec '{lab.worker}' check"
        return lab.output(["sh", "-c", shell]).returncode == 0

    low, high = 100, 20_000
    if not starts(high):
        raise NotRun("the worker needs more than 20 GB of address space to start")
    while high - low > 50:
        middle = (low + high) // 2
        low, high = (low, middle) if starts(middle) else (middle, high)
    return high << 20


def memory_sizes(lab):
    """The trainings by name: family, sizes, and changes."""
    if lab.on_cpu:
        return {f"fish, dim {dim}": ("fish", f"layers = 2\ndim = {dim}", {})
                for dim in (64, 128, 256)}
    half = dict(batch=4, length=1024)
    return {
        "fish, small": ("fish", 'shape = "small"', half),
        "fish, 12 layers of 512": ("fish", "layers = 12\ndim = 512\nheads = 8", half),
        "fish, s1-mini": ("fish", 'shape = "s1-mini"', half),
        "vits, mms": ("vits", 'shape = "mms"', dict(batch=8)),
        "xtts, published": ("xtts", 'shape = "published"', dict(batch=4)),
    }


# The memory of a process on a GPU beside that of the allocator, which is what is measured; the same as
# `GPU_CONTEXT` in `engine/src/estimate/stage.rs`.
CONTEXT = 640_000_000


def memory(lab):
    """The memory of the plan beside that of the training."""
    work, results = lab.folder("memory"), []
    context = 0 if lab.on_cpu else CONTEXT
    kind = "ram_bytes" if lab.on_cpu else "vram_bytes"
    for number, (name, (family, sizes, changes)) in enumerate(memory_sizes(lab).items()):
        if lab.left() <= 0:
            raise Failed("time limit reached", results)
        ran = lab.run(project(work / str(number), family, sizes, **changes)).check()
        plan = ran.all("estimated")[0]["stages"]["trained"]
        planned = plan.get(kind)
        measured = next(event for event in ran.all("measured") if event["stage"] == "trained")
        found = {"size": name, "planned": planned, "measured": measured[kind] + context,
                 "planned_seconds": plan.get("seconds"), "measured_seconds": measured["seconds"]}
        results.append(found)
        if not planned or not measured[kind]:
            raise Failed(f"{name}: no figure of the plan or of the run", results)
        found["off"] = planned["likely"] / found["measured"] - 1
    return results


def devices(lab):
    """A training on two devices has the losses of one on one."""
    pair = ["cpu", "cpu"] if lab.on_cpu else [gpu["name"] for gpu in lab.gpus()][:2]
    if len(pair) < 2:
        raise NotRun("there is one device")
    work, results = lab.folder("devices"), {"devices": pair}
    sizes = TINY["fish"] if lab.on_cpu else "layers = 12\ndim = 512\nheads = 8"
    runs = {}
    for name, own in {"one": pair[:1], "two": pair}.items():
        words = ", ".join(f'"{device}"' for device in own)
        folder = project(work / name, "fish", sizes, steps=6, batch=4, precision="f32",
                         devices=f"devices = [{words}]")
        runs[name] = lab.run(folder).check()
        results[name] = seconds_of(runs[name])
    results["difference"] = difference(runs["one"].losses(), runs["two"].losses())
    results["bound"] = BOUNDS["fish"]
    if results["difference"] > results["bound"]:
        raise Failed(f"losses differ by {results['difference']:.1e}", results)
    return results


def seconds_of(ran):
    return [event["seconds"] for event in ran.all("measured") if event["stage"] == "trained"][0]
