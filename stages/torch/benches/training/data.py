"""The sizes of the models and synthetic clips for them, in plain Python: making the folder that our
program reads needs neither torch nor the original code. If the folder has no weights, our program
draws them.

    data.py FAMILY FOLDER SIZE
"""

import array
import json
import math
import pathlib
import random
import sys

# The type of labels that are left out of a loss.
IGNORED = -100
DUAL_AR = {
    "tiny": dict(dim=64, layers=2, fast_layers=1, vocab=1024, codebook_size=128, codebooks=4,
                 head_dim=32, heads=2, text=(4, 12), frames=(8, 40), clips=6, length=256),
    "small": dict(dim=256, layers=6, fast_layers=2, vocab=8192, codebook_size=1024, codebooks=8,
                  head_dim=64, heads=4, text=(16, 64), frames=(40, 260), clips=8, length=512),
    # 860 million parameters.
    "published": dict(dim=1024, layers=28, fast_layers=4, vocab=155776, codebook_size=4096,
                      codebooks=10, head_dim=128, heads=16, text=(32, 128), frames=(100, 800),
                      clips=16, length=2048),
}
# The configuration that finetune-hf-vits trains with.
VITS = dict(
    model_type="vits", discriminator_scale_channels=[1, 16, 64, 256, 1024],
    discriminator_periods=[2, 3, 5, 7, 11],
    discriminator_period_channels=[1, 32, 128, 512, 1024], leaky_relu_slope=0.1)
SMALL_VITS = VITS | dict(
    hidden_size=96, flow_size=96, num_hidden_layers=3, ffn_dim=384, upsample_initial_channel=128,
    duration_predictor_filter_channels=96, prior_encoder_num_wavenet_layers=2,
    posterior_encoder_num_wavenet_layers=6, discriminator_scale_channels=[1, 16, 64, 256],
    discriminator_period_channels=[1, 8, 32, 128, 256])
TINY_VITS = SMALL_VITS | dict(
    hidden_size=32, flow_size=32, num_hidden_layers=1, ffn_dim=64, upsample_initial_channel=32,
    duration_predictor_filter_channels=32, discriminator_scale_channels=[1, 4, 16],
    discriminator_period_channels=[1, 4, 16])
VITS_SIZES = {"tiny": (TINY_VITS, 1, 60), "small": (SMALL_VITS, 2, 200),
              "published": (VITS, 16, 200)}
RATE = 16000
# The frames of the part of a clip that is decoded.
PART = 32
STRIDE, FRAMES = 1024, 517
XTTS = {
    "tiny": dict(layers=2, width=64, heads=4, text_tokens=100, codes=64, clips=2, text=(5, 12),
                 length=(10, 24)),
    "small": dict(layers=6, width=256, heads=4, text_tokens=2000, codes=1024, clips=3,
                  text=(20, 80), length=(60, 140)),
    # 441 million parameters.
    "published": dict(layers=30, width=1024, heads=16, text_tokens=6681, codes=1024, clips=3,
                      text=(40, 120), length=(100, 240)),
}


def spec_of(config, **changes):
    spec = dict(config=config, learning_rate=1e-4, betas=[0.9, 0.95], epsilon=1e-5,
                weight_decay=0.0, decays_all=False, clip=1.0, more={})
    return spec | changes


def integers(*rows):
    """A tensor of whole numbers: [rows, columns], or [columns] for one row."""
    shape = [len(rows), len(rows[0])] if len(rows) > 1 else [len(rows[0])]
    return "I32", shape, array.array("i", [value for row in rows for value in row])


def floats(shape, values):
    return "F32", shape, array.array("f", values)


def save(path, tensors):
    """A file in the safetensors format."""
    header, at = {}, 0
    for name, (dtype, shape, values) in tensors.items():
        end = at + len(values) * values.itemsize
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, _, values in tensors.values():
            file.write(values.tobytes())


def dual_ar(size, drawn):
    s = DUAL_AR[size]
    config = dict(
        model_type="dual_ar", vocab_size=s["vocab"], n_layer=s["layers"], n_head=s["heads"],
        n_local_heads=s["heads"] // 2, dim=s["dim"], head_dim=s["head_dim"],
        intermediate_size=3 * s["dim"], max_seq_len=s["length"], tie_word_embeddings=False,
        attention_qk_norm=True, codebook_size=s["codebook_size"], num_codebooks=s["codebooks"],
        scale_codebook_embeddings=True, n_fast_layer=s["fast_layers"], fast_attention_qk_norm=False,
        fast_head_dim=64, rope_base=1e6, norm_eps=1e-6, initializer_range=0.02)
    begin = s["vocab"] - s["codebook_size"]
    batch = {}
    for at in range(s["clips"]):
        tokens, labels = clip(s, begin, drawn)
        batch |= {f"{at}.tokens": integers(*tokens), f"{at}.labels": integers(*labels)}
    return spec_of(config, more={"tokens": {"semantic_begin": begin, "im_end": begin - 1}}), batch


def clip(s, begin, drawn):
    """Text, then frames and an end with labels: 1 + codebooks rows each."""
    text, frames = drawn.randrange(*s["text"]), drawn.randrange(*s["frames"])
    length = text + frames
    codes = [[0] * text + [drawn.randrange(s["codebook_size"]) for _ in range(frames)] + [0]
             for _ in range(s["codebooks"])]
    words = [drawn.randrange(begin - 1) for _ in range(text)]
    words += [begin + code for code in codes[0][text:length]] + [begin - 1]
    labels = [[IGNORED] * text + words[text:]]
    labels += [[IGNORED] * text + row[text:length] + [IGNORED] for row in codes]
    return [row[:-1] for row in [words, *codes]], [row[1:] for row in labels]


def vits(size, drawn):
    config, clips, frames = VITS_SIZES[size]
    config = config | dict(segment_size=PART * 256, sampling_rate=RATE)
    batch = {}
    for at in range(clips):
        own = frames - (at * frames) // (2 * clips)
        wave = [0.4 * math.sin(2000 * (1 + at) * step / RATE) + drawn.gauss(0, 0.05)
                for step in range(own * 256)]
        batch[f"{at}.tokens"] = integers([drawn.randrange(1, 30) for _ in range(own // 2 + 1)])
        batch[f"{at}.wave"] = floats([len(wave)], wave)
    spec = spec_of(config, learning_rate=2e-4, betas=[0.8, 0.99], epsilon=1e-9,
                   weight_decay=0.01, decays_all=True, clip=0)
    return spec, batch


def xtts(size, drawn):
    s = XTTS[size]
    config = dict(
        layers=s["layers"], width=s["width"], heads=s["heads"], text_tokens=s["text_tokens"],
        start_text_token=s["text_tokens"] - 1, stop_text_token=0, audio_tokens=s["codes"] + 2,
        start_audio_token=s["codes"], stop_audio_token=s["codes"] + 1, max_text_tokens=402,
        max_audio_tokens=605, code_stride=STRIDE, latents=32, perceiver_layers=2,
        perceiver_heads=8, perceiver_head_width=64, conditioning_layers=6,
        conditioning_heads=s["heads"], mels=80, sample_rate=22050, dropout=0.1,
        layer_norm_eps=1e-5)
    batch = {}
    for at in range(s["clips"]):
        text, codes = drawn.randrange(*s["text"]), drawn.randrange(*s["length"])
        text = [drawn.randrange(1, s["text_tokens"] - 1) for _ in range(text)]
        batch[f"{at}.text"] = integers(text)
        batch[f"{at}.codes"] = integers([drawn.randrange(s["codes"]) for _ in range(codes)])
        mel = [drawn.gauss(0, 1) for _ in range(80 * FRAMES)]
        batch[f"{at}.mel"] = floats([80, FRAMES], mel)
    return spec_of(config, learning_rate=5e-6, betas=[0.9, 0.96], epsilon=1e-8,
                   weight_decay=1e-2, clip=0), batch


FAMILIES = {"dual_ar": dual_ar, "vits": vits, "xtts": xtts}


def make(folder, family, size):
    """Writes `spec.json` and `batch.safetensors`; returns the description."""
    spec, batch = FAMILIES[family](size, random.Random(1))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "spec.json").write_text(json.dumps(spec))
    save(folder / "batch.safetensors", batch)
    return spec


if __name__ == "__main__":
    make(pathlib.Path(sys.argv[2]), sys.argv[1], sys.argv[3])
