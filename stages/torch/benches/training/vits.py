"""VITS of transformers with the step of finetune-hf-vits, as `make_vits.py` writes it out. The
alignment search is not part of any reference: frames are spread evenly over tokens."""

import pathlib
import sys

import torch
from transformers import VitsConfig, VitsModel

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "fixtures"))
import make_vits as reference  # noqa: E402

import family  # noqa: E402

# The configuration that finetune-hf-vits trains with.
PUBLISHED = dict(
    model_type="vits", discriminator_scale_channels=[1, 16, 64, 256, 1024],
    discriminator_periods=[2, 3, 5, 7, 11],
    discriminator_period_channels=[1, 32, 128, 512, 1024], leaky_relu_slope=0.1)
SMALL = PUBLISHED | dict(
    hidden_size=96, flow_size=96, num_hidden_layers=3, ffn_dim=384, upsample_initial_channel=128,
    duration_predictor_filter_channels=96, prior_encoder_num_wavenet_layers=2,
    posterior_encoder_num_wavenet_layers=6, discriminator_scale_channels=[1, 16, 64, 256],
    discriminator_period_channels=[1, 8, 32, 128, 256])
TINY = SMALL | dict(
    hidden_size=32, flow_size=32, num_hidden_layers=1, ffn_dim=64, upsample_initial_channel=32,
    duration_predictor_filter_channels=32, discriminator_scale_channels=[1, 4, 16],
    discriminator_period_channels=[1, 4, 16])
SIZES = {"tiny": (TINY, 1, 60), "small": (SMALL, 2, 200), "published": (PUBLISHED, 16, 200)}
RATE = 16000
PART = 32


class Arguments:
    """The arguments that the generator of fixtures reads."""

    rates, points, bands, rate, segment = [8, 8, 2, 2], 1024, 80, RATE, PART
    stochastic, speakers, mel_weight, kl_weight = 1, 1, 45.0, 1.0


def make(folder, size, generator):
    config, clips, frames = SIZES[size]
    config = config | dict(segment_size=PART * 256, sampling_rate=RATE)
    model, judge = nets(config)
    tensors = {reference.plain(name): tensor for name, tensor in model.named_parameters()}
    tensors |= {f"discriminator.{reference.plain(name)}": tensor
                for name, tensor in judge.named_parameters()}
    batch = {}
    for at in range(clips):
        own = frames - (at * frames) // (2 * clips)
        time = torch.arange(own * 256) / RATE
        batch[f"{at}.tokens"] = torch.randint(1, 30, (own // 2 + 1,), generator=generator).int()
        batch[f"{at}.wave"] = (0.4 * torch.sin(2000 * (1 + at) * time)
                               + 0.05 * torch.randn(own * 256, generator=generator))
    spec = family.spec_of(config, learning_rate=2e-4, betas=[0.8, 0.99], epsilon=1e-9,
                          weight_decay=0.01, decays_all=True, clip=0)
    family.write(folder, spec, tensors, batch)


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
