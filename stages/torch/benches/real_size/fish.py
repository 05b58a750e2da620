"""openaudio-s1-mini at its published size by fish-speech 0.1.0: makes its files with random weights, and
runs each task with the original code.

    fish.py make FOLDER                  the files, in FOLDER/original
    fish.py TASK FOLDER [--threads 2]    see `TASKS`
    fish.py check FOLDER                 loads the exported model, which has to be complete
"""

import base64
import json
import re

import loralib
import numpy
import torch

from shared import ROWS, SENTENCE, STEPS, clips, main

import make_fish_dac
import make_fish_dual_ar as reference
from make_fish_dual_ar import llama

CONFIG = dict(
    model_type="dual_ar", vocab_size=155776, n_layer=28, n_head=16, n_local_heads=8, dim=1024,
    head_dim=128, intermediate_size=3072, max_seq_len=8192, codebook_size=4096, num_codebooks=10,
    n_fast_layer=4, tie_word_embeddings=False, attention_qk_norm=True, rope_base=1e6, norm_eps=1e-6,
    scale_codebook_embeddings=True, fast_attention_qk_norm=False, fast_head_dim=64,
    fast_n_head=16, fast_n_local_heads=8, fast_dim=1024, fast_intermediate_size=3072,
    attention_qkv_bias=False, attention_o_bias=False, fast_attention_qkv_bias=False,
    fast_attention_o_bias=False, initializer_range=0.03125, is_reward_model=False, dropout=0.0,
    use_gradient_checkpointing=False)
MODULE = dict(block_size=4096, n_layer=8, n_head=16, head_dim=64, dim=1024, intermediate_size=3072,
              window_size=128, rope_base=10000.0, norm_eps=1e-5)
CODEC = dict(
    sample_rate=44100, encoder_dim=64, encoder_rates=[2, 4, 8, 8],
    encoder_transformer_layers=[0, 0, 0, 4], latent_dim=1024, decoder_dim=1536,
    encoder_transformer=dict(block_size=16384, head_dim=64, window_size=512, rope_base=10000.0,
                             norm_eps=1e-5),
    decoder_rates=[8, 8, 4, 2],
    quantizer=dict(semantic_codebook_size=4096, n_codebooks=9, codebook_size=1024, codebook_dim=8,
                   downsample_factor=[2, 2], pre_module=MODULE, post_module=MODULE))
MARKS = ["begin_of_text", "end_of_text", "pad", "im_start", "im_end", "phoneme_start", "phoneme_end",
         "tool_call_start", "tool_call_end", "text", "voice", "interleave", "audio_start",
         "audio_end", "audio"]
SPOKEN, RANK = 24, 8
# The modules that the original adapts.
ADAPTED = re.compile(r"embeddings|output|(fast_)?layers\.\d+\.(attention|feed_forward)\.w")


# Tokens of several bytes that no text has, so that every row of the embeddings has its token.
FILLED = CONFIG["vocab_size"] - 256 - len(MARKS) - CONFIG["codebook_size"]


def tokenizer():
    """The marks, and the codes at the end."""
    names = [f"<|{name}|>" for name in MARKS]
    names += [f"<|semantic:{at}|>" for at in range(CONFIG["codebook_size"])]
    return {name: 256 + FILLED + at for at, name in enumerate(names)}


def make(folder):
    torch.manual_seed(1)
    original = folder / "original"
    original.mkdir(parents=True, exist_ok=True)
    tokens = [bytes([byte]) for byte in range(256)]
    tokens += [b"\0unused%d" % number for number in range(FILLED)]
    lines = [f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tokens)]
    (original / "tokenizer.tiktoken").write_text("".join(lines))
    (original / "special_tokens.json").write_text(json.dumps(tokenizer()))
    (original / "config.json").write_text(json.dumps(CONFIG))
    torch.save(empty().bfloat16().state_dict(), original / "model.pth")
    codec = make_fish_dac.build(CODEC)
    torch.save(codec.state_dict(), original / "codec.pth")


def empty():
    names = tokenizer()
    known = reference.Tokenizer(names["<|semantic:0|>"], CONFIG["codebook_size"],
                                names["<|im_end|>"])
    return reference.Reference(llama.DualARModelArgs(**CONFIG), tokenizer=known)


def load(folder):
    """As `from_pretrained`, with the tokenizer of this file: read as a map, and assigned."""
    with torch.device("meta"):
        model = empty()
    weights = torch.load(folder / "model.pth", map_location="cpu", mmap=True, weights_only=True)
    model.load_state_dict(weights, strict=False, assign=True)
    # Tables that no file needs to have.
    fresh = reference.llama.precompute_freqs_cis
    model.freqs_cis = fresh(CONFIG["max_seq_len"], CONFIG["head_dim"], CONFIG["rope_base"])
    model.fast_freqs_cis = fresh(CONFIG["num_codebooks"], CONFIG["fast_head_dim"],
                                 CONFIG["rope_base"])
    size = CONFIG["max_seq_len"]
    model.causal_mask = torch.tril(torch.ones(size, size, dtype=torch.bool))
    return model


def do_import(folder):
    model = load(folder / "original")
    # A map is only read when it is used.
    sum(tensor.float().sum() for tensor in model.parameters())


def codec(folder):
    model = make_fish_dac.build(CODEC)
    state = torch.load(folder / "original/codec.pth", map_location="cpu", mmap=True,
                       weights_only=True)
    model.load_state_dict(state, strict=False, assign=True)
    return model.eval()


def do_codec(folder):
    sum(tensor.float().sum() for tensor in codec(folder).parameters())


@torch.inference_mode()
def tokens(folder):
    """All clips as one padded batch, of 16 as its documentation recommends."""
    model = codec(folder)
    waves = [sound[0] for sound, _ in clips(folder, CODEC["sample_rate"])]
    for start in range(0, len(waves), 16):
        batch = waves[start:start + 16]
        lengths = torch.tensor([len(wave) for wave in batch])
        padded = torch.nn.utils.rnn.pad_sequence(batch, batch_first=True)
        model.encode(padded[:, None], lengths)


def rows(folder):
    """The rows of each step. A row for each clip: a prompt and its text, then its frames with
    labels."""
    begin, end = tokenizer()["<|semantic:0|>"], tokenizer()["<|im_end|>"]
    found = sorted((folder / "out/tokens").glob("*.npy"))[:STEPS * ROWS]
    made = []
    for path, (_, text) in zip(found, clips(folder, 16000)):
        codes = torch.from_numpy(numpy.load(path)).long()
        # As long as a prompt of ours.
        words = torch.tensor(list(("<|speaker:0|>" + text + " " * 4).encode()))
        row = torch.zeros(11, len(words) + codes.shape[1] + 1, dtype=torch.int)
        row[0, :len(words)], row[0, -1] = words, end
        row[0, len(words):-1], row[1:, len(words):-1] = codes[0] + begin, codes
        label = torch.where(row[0] >= begin, row.long(), -100)
        label[0, -1] = end
        made.append((row[:, :-1], label[:, 1:]))
    return [padded(made[start:start + ROWS]) for start in range(0, len(made), ROWS)]


def padded(made):
    length = max(row.shape[1] for row, _ in made)
    inputs = torch.zeros(len(made), 11, length, dtype=torch.int)
    labels = torch.full((len(made), 11, length), -100)
    padding = torch.ones(len(made), length, dtype=torch.bool)
    for at, (row, label) in enumerate(made):
        inputs[at, :, :row.shape[1]], labels[at, :, :row.shape[1]] = row, label
        padding[at, :row.shape[1]] = False
    return inputs, labels, padding


def train(model, folder, rate=1e-4):
    trained = [tensor for tensor in model.parameters() if tensor.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=rate, betas=(0.9, 0.95), eps=1e-5, weight_decay=0.0)
    for batch in rows(folder):
        base, semantic, *_ = model.losses(*batch)
        optimizer.zero_grad()
        (base + semantic).backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        print("step", flush=True)


def step(folder, checkpointing=False):
    model = load(folder / "original").float().train()
    for tensor in model.parameters():
        tensor.requires_grad_(True)
    model.config.use_gradient_checkpointing = checkpointing
    train(model, folder)


def adapt(model):
    """The modules of the original by loralib's, as its `setup_lora` does."""
    for tensor in model.parameters():
        tensor.requires_grad_(False)
    for name, module in list(model.named_modules()):
        if not ADAPTED.fullmatch(re.sub(r"(w\w*)$", "w", name)) or not hasattr(module, "weight"):
            continue
        rows, columns = module.weight.shape
        if isinstance(module, torch.nn.Embedding):
            new = loralib.Embedding(rows, columns, r=RANK, lora_alpha=16)
        else:
            new = loralib.Linear(columns, rows, r=RANK, lora_alpha=16, lora_dropout=0.01,
                                 bias=module.bias is not None)
        new.weight = module.weight
        new.weight.requires_grad_(False)
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, new)
    return model


def lora(folder):
    model = adapt(load(folder / "original").float()).train()
    train(model, folder, 2e-5)
    torch.save(loralib.lora_state_dict(model), folder / "adapters.pth")


def merge(folder):
    """As its merging tool: the model with adapters in evaluation, saved without them."""
    model = adapt(load(folder / "original")).train()
    found = folder / "adapters.pth"
    if found.exists():
        model.load_state_dict(torch.load(found, weights_only=True), strict=False)
    model.eval()
    state = {name: tensor for name, tensor in model.state_dict().items() if "lora" not in name}
    torch.save(state, folder / "merged.pth")


def export(folder):
    """As `save_pretrained`."""
    torch.save(load(folder / "original").state_dict(), folder / "saved.pth")


def check(folder):
    with torch.device("meta"):
        model = empty()
    weights = torch.load(folder / "out/model/model.pth", map_location="cpu", mmap=True,
                         weights_only=True)
    missing = model.load_state_dict(weights, strict=False, assign=True)
    names = {name for name, _ in model.named_parameters()}
    lost = sorted(names & set(missing.missing_keys)) + missing.unexpected_keys
    if lost:
        raise SystemExit(f"the exported model does not fit the original: {lost[:5]}")


@torch.inference_mode()
def sentence(folder):
    """In f32, as on a processor here, and with caches as long as needed."""
    decoder, model = codec(folder), load(folder / "original").float().eval()
    words = torch.tensor(list(SENTENCE.encode()), dtype=torch.int)
    prompt = torch.zeros(11, len(words), dtype=torch.int)
    prompt[0] = words
    # No voice of random weights ends by itself at a known length: this one never does.
    model.tokenizer.im_end = -1
    model.setup_caches(1, CONFIG["max_seq_len"], dtype=torch.float32)
    spoken = reference.inference.generate(
        model=model, prompt=prompt, max_new_tokens=SPOKEN, audio_masks=None, audio_parts=None,
        temperature=0.8, top_p=0.8, repetition_penalty=1.1)
    codes = spoken[1:, prompt.shape[1]:].clamp(0, 1023).long()
    decoder.decode(codes[None], torch.tensor([codes.shape[1]]))


TASKS = {
    "make": make, "import": do_import, "codec": do_codec, "tokens": tokens, "step": step,
    "checkpointing": lambda folder: step(folder, checkpointing=True), "lora": lora, "merge": merge,
    "export": export, "sentence": sentence, "check": check,
}

if __name__ == "__main__":
    main(TASKS)
