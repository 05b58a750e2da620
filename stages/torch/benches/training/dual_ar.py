"""The text model of Fish Speech, as the package `fish-speech` has it: rows of one clip, padded to the
longest."""

import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "fixtures"))
import make_fish_dual_ar as reference  # noqa: E402
from fish_speech.models.text2semantic import lora  # noqa: E402

import family  # noqa: E402

def weights(spec):
    begin = spec["more"]["tokens"]["semantic_begin"]
    return build(spec["config"], begin, checkpointing=False).state_dict()


def build(config, begin, checkpointing):
    tokenizer = reference.Tokenizer(begin, config["codebook_size"], im_end=begin - 1)
    arguments = reference.llama.DualARModelArgs(
        **config, use_gradient_checkpointing=checkpointing)
    return reference.Reference(arguments, tokenizer=tokenizer)


class Reference:
    def __init__(self, folder, options, device):
        self.spec, weights, data = family.read(folder)
        begin = self.spec["more"]["tokens"]["semantic_begin"]
        self.model = build(self.spec["config"], begin, options.get("checkpointing", False))
        rank = options.get("rank")
        if rank:
            # It replaces the layers, so their weights come after it.
            lora.setup_lora(self.model, lora.LoraConfig(r=rank, lora_alpha=2 * rank))
        self.model.load_state_dict(weights, strict=not rank)
        del weights
        self.model.to(device, family.KINDS[options.get("precision", "f32")]).train()
        self.batch = [tensor.to(device) for tensor in padded(data)]
        self.parameters = [each for each in self.model.parameters() if each.requires_grad]
        self.optimizer = family.optimizer_of(self.spec, self.parameters, options)

    def step(self):
        base, semantic, *_ = self.model.losses(*self.batch)
        self.optimizer.zero_grad()
        (base + semantic).backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, self.spec["clip"])
        self.optimizer.step()
        return (base + semantic).item()


def padded(data):
    """Rows of one clip each: tokens, labels, and true where there is padding."""
    clips = [(data[f"{at}.tokens"].long(), data[f"{at}.labels"].long())
             for at in range(len(data) // 2)]
    longest = max(tokens.shape[1] for tokens, _ in clips)
    height = clips[0][0].shape[0]
    tokens = torch.zeros(len(clips), height, longest, dtype=torch.long)
    labels = torch.full_like(tokens, reference.IGNORED)
    padding = torch.ones(len(clips), longest, dtype=torch.bool)
    for row, (own, wanted) in enumerate(clips):
        count = own.shape[1]
        tokens[row, :, :count], labels[row, :, :count] = own, wanted
        padding[row, :count] = False
    return tokens, labels, padding
