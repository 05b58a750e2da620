"""The text model of Fish Speech, as the package `fish-speech` has it: rows of one clip, padded to the
longest."""

import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "fixtures"))
import make_fish_dual_ar as reference  # noqa: E402

import family  # noqa: E402

SIZES = {
    "tiny": dict(dim=64, layers=2, fast_layers=1, vocab=1024, codebook_size=128, codebooks=4,
                 head_dim=32, heads=2, text=(4, 12), frames=(8, 40), clips=6, length=256),
    "small": dict(dim=256, layers=6, fast_layers=2, vocab=8192, codebook_size=1024, codebooks=8,
                  head_dim=64, heads=4, text=(16, 64), frames=(40, 260), clips=8, length=512),
    # 860 million parameters.
    "published": dict(dim=1024, layers=28, fast_layers=4, vocab=155776, codebook_size=4096,
                      codebooks=10, head_dim=128, heads=16, text=(32, 128), frames=(100, 800),
                      clips=16, length=2048),
}


def make(folder, size, generator):
    s = SIZES[size]
    config = dict(
        model_type="dual_ar", vocab_size=s["vocab"], n_layer=s["layers"], n_head=s["heads"],
        n_local_heads=s["heads"] // 2, dim=s["dim"], head_dim=s["head_dim"],
        intermediate_size=3 * s["dim"], max_seq_len=s["length"], tie_word_embeddings=False,
        attention_qk_norm=True, codebook_size=s["codebook_size"], num_codebooks=s["codebooks"],
        scale_codebook_embeddings=True, n_fast_layer=s["fast_layers"], fast_attention_qk_norm=False,
        fast_head_dim=64, rope_base=1e6, norm_eps=1e-6, initializer_range=0.02)
    begin = s["vocab"] - s["codebook_size"]
    model = build(config, begin, checkpointing=False)
    batch = {}
    for at in range(s["clips"]):
        tokens, labels = clip(s, begin, generator)
        batch |= {f"{at}.tokens": tokens.int(), f"{at}.labels": labels.int()}
    more = {"tokens": {"semantic_begin": begin, "im_end": begin - 1}}
    family.write(folder, family.spec_of(config, more=more), model.state_dict(), batch)


def clip(s, begin, generator):
    """Text, then frames and an end with labels: [1 + codebooks, length] each."""
    def drawn(low, high, *size):
        return torch.randint(low, high, size, generator=generator)

    text, frames = (int(drawn(*s[part], 1)) for part in ("text", "frames"))
    length = text + frames
    columns = torch.zeros(1 + s["codebooks"], length + 1, dtype=torch.long)
    columns[0] = drawn(0, begin - 1, length + 1)
    columns[1:, text:length] = drawn(0, s["codebook_size"], s["codebooks"], frames)
    columns[0, text:length] = columns[1, text:length] + begin
    columns[0, length] = begin - 1
    labels = torch.full_like(columns, reference.IGNORED)
    labels[0, text:], labels[1:, text:length] = columns[0, text:], columns[1:, text:length]
    return columns[:, :-1], labels[:, 1:]


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
        self.model.load_state_dict(weights)
        del weights
        if options.get("rank"):
            reference.lora.setup_lora(self.model, reference.lora.LoraConfig(
                r=options["rank"], lora_alpha=2 * options["rank"]))
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
