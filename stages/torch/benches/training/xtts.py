"""The GPT of XTTS v2 as coqui-tts trains it: text and codes padded behind a mask, dropout of 0.1. No
label is left out for the conditioning, so that both sides train on the same labels."""

import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "fixtures"))
import coqui  # noqa: E402,F401
from TTS.tts.layers.xtts.gpt import GPT  # noqa: E402

import family  # noqa: E402
from data import STRIDE  # noqa: E402

def weights(spec):
    model = build(spec["config"])
    return {f"gpt.{name}": tensor for name, tensor in model.state_dict().items()}


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
