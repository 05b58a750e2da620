"""VITS of MMS at its published size, with a discriminator, by transformers 4.57.6 and the step of
finetune-hf-vits as `make_vits.py` writes it out: makes its files with random weights, and runs each
task with the original code.

    vits.py make FOLDER                  the files, in FOLDER/original
    vits.py TASK FOLDER [--threads 2]    see `TASKS`
    vits.py check FOLDER                 loads the exported model, which has to be complete
"""

import importlib.util
import json
import string

import torch
from safetensors.torch import save_file
from transformers import VitsConfig, VitsModel, VitsTokenizer

from shared import ROWS, SENTENCE, TRAINING, batches, main

import data
import family
import make_vits as reference

MANY = 8
# Random weights speak half as fast as people.
RATE_OF_SPEECH = 2.0
SYMBOLS = [" ", *string.ascii_lowercase, "'", "-", "_"]


def bench():
    """The side of the original in the benchmark of training steps, which has this file's name."""
    spec = importlib.util.spec_from_file_location("training_vits", TRAINING / "vits.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make(folder):
    torch.manual_seed(1)
    original = folder / "original"
    original.mkdir(parents=True, exist_ok=True)
    config = VitsConfig(**data.VITS, vocab_size=len(SYMBOLS),
                        speaking_rate=RATE_OF_SPEECH).to_dict()
    # As in published files, the decoder and the discriminator are without weight norm.
    tensors = {reference.plain(name): tensor
               for name, tensor in VitsModel(VitsConfig(**config)).named_parameters()}
    tensors |= {f"discriminator.{name}": tensor
                for name, tensor in reference.Discriminator(config).named_parameters()}
    tensors = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    save_file(tensors, original / "model.safetensors", metadata={"format": "pt"})
    (original / "config.json").write_text(json.dumps(config))
    numbers = {symbol: at for at, symbol in enumerate(reversed(SYMBOLS))}
    (original / "vocab.json").write_text(json.dumps(numbers))
    (original / "tokenizer_config.json").write_text(json.dumps(
        dict(add_blank=True, is_uroman=False, language="eng", normalize=True, pad_token="_",
             phonemize=False, unk_token="<unk>", tokenizer_class="VitsTokenizer")))


def load(folder):
    return VitsModel.from_pretrained(folder)


def step(folder):
    module = bench()
    made = folder / "original-step"
    if not made.exists():
        # As many clips as a step has here, of the mean length of those of the demo.
        data.VITS_SIZES["clips"] = (data.VITS, ROWS, 130)
        family.write_weights(made, module.weights(data.make(made, "vits", "clips")))
    side, tokens = module.Reference(made, {}, torch.device("cpu")), tokenizer(folder)
    for batch in batches(folder, data.RATE):
        clips = {}
        for at, (sound, text) in enumerate(batch):
            clips[f"{at}.tokens"] = torch.tensor(tokens(text)["input_ids"])
            clips[f"{at}.wave"] = sound[0]
        side.batch, side.noise = side.placed(clips, side.device)
        side.step()
        print("step", flush=True)


def tokenizer(folder):
    return VitsTokenizer.from_pretrained(folder / "original")


@torch.inference_mode()
def sentence(folder, times=1):
    model, tokens = load(folder / "original"), tokenizer(folder)
    for _ in range(times):
        model(**tokens(SENTENCE, return_tensors="pt"))


def export(folder):
    load(folder / "original").save_pretrained(folder / "saved")


def check(folder):
    """Ours has the names that transformers writes, so nothing may be missing."""
    _, told = VitsModel.from_pretrained(folder / "out/model", output_loading_info=True)
    if told["missing_keys"] or told["mismatched_keys"]:
        raise SystemExit(f"the exported model does not fit the original: {told}")


TASKS = {
    "make": make, "import": lambda folder: load(folder / "original"), "step": step,
    "sentence": sentence, "sentences": lambda folder: sentence(folder, MANY), "export": export,
    "check": check,
}

if __name__ == "__main__":
    main(TASKS)
