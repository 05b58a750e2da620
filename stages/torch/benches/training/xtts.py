"""The GPT of XTTS v2 as coqui-tts trains it: text and codes padded behind a mask, dropout of 0.1. No
label is left out for the conditioning, so that both sides train on the same labels."""

import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "fixtures"))
import coqui  # noqa: E402,F401
from TTS.tts.layers.xtts.gpt import GPT  # noqa: E402

import family  # noqa: E402

STRIDE, FRAMES = 1024, 517
SIZES = {
    "tiny": dict(layers=2, width=64, heads=4, text_tokens=100, codes=64, clips=2, text=(5, 12),
                 length=(10, 24)),
    "small": dict(layers=6, width=256, heads=4, text_tokens=2000, codes=1024, clips=3,
                  text=(20, 80), length=(60, 140)),
    # 441 million parameters.
    "published": dict(layers=30, width=1024, heads=16, text_tokens=6681, codes=1024, clips=3,
                      text=(40, 120), length=(100, 240)),
}


def make(folder, size, generator):
    s = SIZES[size]
    config = dict(
        layers=s["layers"], width=s["width"], heads=s["heads"], text_tokens=s["text_tokens"],
        start_text_token=s["text_tokens"] - 1, stop_text_token=0, audio_tokens=s["codes"] + 2,
        start_audio_token=s["codes"], stop_audio_token=s["codes"] + 1, max_text_tokens=402,
        max_audio_tokens=605, code_stride=STRIDE, latents=32, perceiver_layers=2,
        perceiver_heads=8, perceiver_head_width=64, conditioning_layers=6,
        conditioning_heads=s["heads"], mels=80, sample_rate=22050, dropout=0.1,
        layer_norm_eps=1e-5)
    model = build(config)
    weights = {f"gpt.{name}": tensor for name, tensor in model.state_dict().items()}

    def drawn(low, high, *shape):
        return torch.randint(low, high, shape, generator=generator)

    batch = {}
    for at in range(s["clips"]):
        text, codes = (int(drawn(*s[part], 1)) for part in ("text", "length"))
        batch[f"{at}.text"] = drawn(1, s["text_tokens"] - 1, text).int()
        batch[f"{at}.codes"] = drawn(0, s["codes"], codes).int()
        batch[f"{at}.mel"] = torch.randn(80, FRAMES, generator=generator)
    spec = family.spec_of(config, learning_rate=5e-6, betas=[0.9, 0.96], epsilon=1e-8,
                          weight_decay=1e-2, clip=0)
    family.write(folder, spec, weights, batch)


def build(c):
    return GPT(
        layers=c["layers"], model_dim=c["width"], heads=c["heads"],
        max_text_tokens=c["max_text_tokens"], max_mel_tokens=c["max_audio_tokens"],
        max_prompt_tokens=70, number_text_tokens=c["text_tokens"],
        start_text_token=c["start_text_token"], stop_text_token=c["stop_text_token"],
        num_audio_tokens=c["audio_tokens"], start_audio_token=c["start_audio_token"],
        stop_audio_token=c["stop_audio_token"], use_perceiver_resampler=True,
        code_stride_len=STRIDE)


class Reference:
    def __init__(self, folder, options, device):
        self.spec, weights, data = family.read(folder)
        self.model = build(self.spec["config"])
        self.model.load_state_dict({name[4:]: tensor for name, tensor in weights.items()})
        del weights
        self.model.to(device).train()
        self.batch = [each.to(device) for each in padded(data)]
        self.kind = family.KINDS[options.get("precision", "f32")]
        self.device = device
        norms = (torch.nn.LayerNorm, torch.nn.GroupNorm, torch.nn.Embedding)
        plain = {id(parameter) for module in self.model.modules()
                 for name, parameter in module.named_parameters(recurse=False)
                 if isinstance(module, norms) or name == "bias"}
        parameters = list(self.model.parameters())
        groups = [
            {"params": [each for each in parameters if id(each) not in plain]},
            {"params": [each for each in parameters if id(each) in plain], "weight_decay": 0.0}]
        self.optimizer = family.optimizer_of(self.spec, groups, options)

    def step(self):
        half = self.kind != torch.float32
        with torch.autocast(self.device.type, self.kind, enabled=half):
            text, audio, _ = self.model(*self.batch)
        loss = 0.01 * text + audio
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def padded(data):
    """Text, its lengths, codes, lengths of the waves, and spectrograms of the conditioning."""
    count = len(data) // 3
    text = [data[f"{at}.text"].long() for at in range(count)]
    codes = [data[f"{at}.codes"].long() for at in range(count)]
    mels = torch.stack([data[f"{at}.mel"] for at in range(count)])

    def lengths(rows):
        return torch.tensor([len(row) for row in rows])

    pad = torch.nn.utils.rnn.pad_sequence
    return (pad(text, batch_first=True), lengths(text), pad(codes, batch_first=True),
            lengths(codes) * STRIDE, mels[:, None])
