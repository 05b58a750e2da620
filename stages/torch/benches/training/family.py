"""Shared by the families: the weights that both sides read, and the process of the original code,
which answers like `main.rs`.

    family.py FAMILY FOLDER OPTIONS

`{"make": SIZE}` in place of switches writes the folder."""

import ctypes
import importlib
import json
import math
import pathlib
import resource
import sys
import time

import torch
from safetensors.torch import load_file, save_file

import data

KINDS = {"f32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16,
         "fp16": torch.float16}


def write_weights(folder, tensors):
    tensors = {key: tensor.detach().contiguous().clone() for key, tensor in tensors.items()}
    save_file(tensors, folder / "model.safetensors")


def read(folder):
    spec = json.loads((folder / "spec.json").read_text())
    return spec, load_file(folder / "model.safetensors"), load_file(folder / "batch.safetensors")


def optimizer_of(spec, groups, options):
    return torch.optim.AdamW(groups, lr=spec["learning_rate"], betas=spec["betas"],
                             eps=spec["epsilon"], weight_decay=spec["weight_decay"],
                             fused=options.get("fused") or None)


class Memory:
    """As `memory.rs`."""

    def __init__(self, gpu):
        self.gpu = gpu
        self.before = self.used("VmRSS:") if gpu is None else 0

    def used(self, field):
        for line in pathlib.Path("/proc/self/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) * 1024
        return 0

    def reset(self):
        ctypes.CDLL(None).malloc_trim(0)
        if self.gpu is not None:
            torch.cuda.reset_peak_memory_stats(self.gpu)
        try:
            pathlib.Path("/proc/self/clear_refs").write_text("5")
        except OSError:
            pass

    def peak(self):
        now = self.used("VmHWM:") if self.gpu is None else torch.cuda.max_memory_reserved(self.gpu)
        return max(0, now - self.before)


def user_seconds():
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def main():
    family, folder, options = sys.argv[1], pathlib.Path(sys.argv[2]), json.loads(sys.argv[3])
    if "make" in options:
        torch.manual_seed(1)
        spec = data.make(folder, family, options["make"])
        write_weights(folder, importlib.import_module(family).weights(spec))
        return
    torch.set_num_threads(options["threads"])
    torch.manual_seed(1)
    gpu = options.get("gpu")
    device = torch.device("cpu" if gpu is None else f"cuda:{gpu}")
    torch.backends.cuda.matmul.allow_tf32 = options.get("precision") == "tf32"
    # On by default.
    torch.backends.cudnn.allow_tf32 = options.get("precision") == "tf32"
    module = importlib.import_module(family)
    memory = Memory(gpu)
    reference = module.Reference(folder, options, device)
    for line in sys.stdin:
        work, answer = line.strip(), {}
        wall, user = time.perf_counter(), user_seconds()
        if work == "reset":
            memory.reset()
        elif work == "peak":
            answer["bytes"] = memory.peak()
        else:
            loss = getattr(reference, work)()
            answer["loss"] = None if loss is None or math.isnan(loss) else loss
        if gpu is not None:
            torch.cuda.synchronize(device)
        answer |= {"seconds": time.perf_counter() - wall, "user": user_seconds() - user}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
