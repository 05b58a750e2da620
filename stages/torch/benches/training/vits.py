"""VITS of transformers with the step of finetune-hf-vits, as `make_vits.py` writes it out. The
alignment search is not part of any reference: frames are spread evenly over tokens."""

import pathlib
import sys

import torch
from transformers import VitsConfig, VitsModel

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "fixtures"))
import make_vits as reference  # noqa: E402

import family  # noqa: E402
from data import PART, RATE  # noqa: E402

class Arguments:
    """The arguments that the generator of fixtures reads."""

    rates, points, bands, rate, segment = [8, 8, 2, 2], 1024, 80, RATE, PART
    stochastic, speakers, mel_weight, kl_weight = 1, 1, 45.0, 1.0


def weights(spec):
    model, judge = nets(spec["config"])
    tensors = {reference.plain(name): tensor for name, tensor in model.named_parameters()}
    return tensors | {f"discriminator.{reference.plain(name)}": tensor
                      for name, tensor in judge.named_parameters()}


def nets(config):
    config = dict(config)
    model = VitsModel(VitsConfig(**config)).train()
    judge = reference.Discriminator(config)
    model.decoder.apply_weight_norm(), judge.apply_weight_norm()
    # As the recipe trains.
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    model.config.layerdrop = model.config.activation_dropout = 0.0
    model.eval()
    return model, judge


class Reference:
    def __init__(self, folder, options, device):
        self.spec, weights, data = family.read(folder)
        self.model, self.judge = nets(self.spec["config"])
        with torch.no_grad():
            for name, tensor in reference.named(self.model, self.judge):
                tensor.copy_(weights[name])
        del weights
        self.model.to(device), self.judge.to(device)
        self.optimizers = [family.optimizer_of(self.spec, net.parameters(), options)
                           for net in (self.judge, self.model)]
        self.batch, self.noise = self.placed(data, device)
        frames = self.batch[3].shape[2]
        flow = self.model.config.flow_size
        self.latents = torch.randn(1, flow, frames, device=device)
        self.mask = torch.ones(1, 1, frames, device=device)
        reference.best_path = even_path
        self.kind = family.KINDS[options.get("precision", "f32")]
        self.device = device

    def placed(self, data, device):
        count = len(data) // 2
        tokens = [data[f"{at}.tokens"].long() for at in range(count)]
        waves = [data[f"{at}.wave"] for at in range(count)]
        ids = torch.nn.utils.rnn.pad_sequence(tokens, batch_first=True)
        mask = torch.nn.utils.rnn.pad_sequence(
            [torch.ones_like(own) for own in tokens], batch_first=True)
        wave = torch.nn.utils.rnn.pad_sequence(waves, batch_first=True)
        frames = [len(own) // 256 for own in waves]
        spec = torch.zeros(count, 513, max(frames))
        for row, own in enumerate(waves):
            spec[row, :, :frames[row]] = reference.spectrogram(Arguments, own[None])[0]
        noise = [torch.randn(count, self.model.config.flow_size, max(frames)),
                 torch.randn(count, 2, ids.shape[1])]
        starts = [(own - PART) // 2 for own in frames]
        return ((ids.to(device), mask.to(device), frames, spec.to(device), wave.to(device), None,
                 starts), [each.to(device) for each in noise])

    @torch.no_grad()
    def speak(self):
        self.model.decoder(self.model.flow(self.latents, self.mask, reverse=True))

    def step(self):
        # As the recipe: mixed precision, by autocast.
        with torch.autocast(self.device.type, self.kind, enabled=self.kind != torch.float32):
            _, judged, generated = reference.learn(
                Arguments, self.model, self.judge, self.batch, self.noise)
        for optimizer, loss in zip(self.optimizers, (judged, lambda: generated()[1])):
            self.judge.zero_grad(), self.model.zero_grad()
            with torch.autocast(self.device.type, self.kind, enabled=self.kind != torch.float32):
                value = loss()
            value.backward()
            optimizer.step()
        return value.item()


def even_path(scores):
    frames, tokens = scores.shape
    return [at * tokens // frames for at in range(frames)]
