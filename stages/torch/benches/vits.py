"""Measures VITS next to its reference, in turns: a round of one, a round of the other, so that
whatever else the machine does slows both. Prints medians, between which quartiles the rounds lie,
and the median of the quotients of the rounds that followed each other.

    vits.py THREADS SIZE ROUNDS PROGRAM...

PROGRAM is what runs `vits.rs`.
"""

import json
import pathlib
import resource
import statistics
import subprocess
import sys
import time

import torch
from transformers import VitsConfig, VitsModel

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "fixtures"))
import make_vits as reference  # noqa: E402

FRAMES, TOKENS = 200, 121
# What finetune-hf-vits trains with.
PUBLISHED = dict(
    model_type="vits", discriminator_scale_channels=[1, 16, 64, 256, 1024],
    discriminator_periods=[2, 3, 5, 7, 11],
    discriminator_period_channels=[1, 32, 128, 512, 1024], leaky_relu_slope=0.1)
SIZES = {
    "published": PUBLISHED,
    "small": PUBLISHED | dict(
        hidden_size=96, flow_size=96, num_hidden_layers=3, ffn_dim=384,
        upsample_initial_channel=128, duration_predictor_filter_channels=96,
        prior_encoder_num_wavenet_layers=2, posterior_encoder_num_wavenet_layers=6,
        discriminator_scale_channels=[1, 16, 64, 256],
        discriminator_period_channels=[1, 8, 32, 128, 256]),
}


class Arguments:
    """What the generator of fixtures asks for."""

    rates, points, bands, rate, segment = [8, 8, 2, 2], 1024, 80, 16000, 32
    stochastic, speakers, mel_weight, kl_weight = 1, 1, 45.0, 1.0


class Ours:
    def __init__(self, program, threads, config):
        words = [*program, threads, str(FRAMES), str(TOKENS), json.dumps(config)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, bufsize=1)

    def timed(self, work):
        self.process.stdin.write(work + "\n")
        return [float(seconds) for seconds in self.process.stdout.readline().split()]


class Reference:
    def __init__(self, config):
        self.model = VitsModel(VitsConfig(**config)).eval()
        self.judge = reference.Discriminator(config)
        self.model.decoder.apply_weight_norm(), self.judge.apply_weight_norm()
        settings = dict(lr=2e-4, betas=(0.8, 0.99), eps=1e-9, weight_decay=0.01)
        self.optimizers = [
            torch.optim.AdamW(net.parameters(), **settings) for net in (self.judge, self.model)]
        flow_size = self.model.config.flow_size
        self.latents, self.mask = torch.randn(1, flow_size, FRAMES), torch.ones(1, 1, FRAMES)
        wave = torch.sin(torch.arange(FRAMES * 256) * 0.05)[None]
        ids, live = torch.ones(1, TOKENS, dtype=torch.long), torch.ones(1, TOKENS, dtype=torch.long)
        spec = reference.spectrogram(Arguments, wave)
        self.batch = ids, live, [FRAMES], spec, wave, None, [50]
        self.noise = [torch.randn(1, flow_size, FRAMES), torch.randn(1, 2, TOKENS)]
        # Its loops over frames are no part of any reference.
        reference.best_path = lambda scores: [at * TOKENS // FRAMES for at in range(FRAMES)]

    def timed(self, work):
        wall, user = time.perf_counter(), user_seconds()
        getattr(self, work)()
        return [time.perf_counter() - wall, user_seconds() - user]

    @torch.no_grad()
    def speak(self):
        self.model.decoder(self.model.flow(self.latents, self.mask, reverse=True))

    def step(self):
        _, judged, generated = reference.learn(
            Arguments, self.model, self.judge, self.batch, self.noise)
        for optimizer, loss in zip(self.optimizers, (judged, lambda: generated()[1])):
            self.judge.zero_grad(), self.model.zero_grad()
            loss().backward()
            optimizer.step()


def user_seconds():
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def told(seconds):
    low, middle, high = statistics.quantiles(seconds, n=4)
    return f"{middle * 1e3:9.1f} ms ({low * 1e3:.1f} to {high * 1e3:.1f})"


def measure(work, rounds, runners):
    """The seconds of each round by runner: by the clock, and of the CPU."""
    times = {name: [] for name in runners}
    for number in range(rounds + 1):
        for name in sorted(runners, reverse=number % 2 == 1):
            times[name].append(runners[name].timed(work))
    # The first round makes what the others reuse.
    return {name: list(zip(*seconds[1:])) for name, seconds in times.items()}


def report(size, work, rounds, runners):
    times = measure(work, rounds, runners)
    for at, clock in enumerate(["by the clock", "of user CPU"]):
        print(f"{size}, {work}, {clock}")
        for name, seconds in times.items():
            print(f"  {name:10} {told(seconds[at])}")
        if len(times) == 2:
            pairs = zip(times["reference"][at], times["throstle"][at])
            low, middle, high = statistics.quantiles([one / other for one, other in pairs], n=4)
            print(f"  throstle is {middle:.2f} x as fast ({low:.2f} to {high:.2f})")
    sys.stdout.flush()


def main():
    threads, size, rounds, *program = sys.argv[1:]
    torch.set_num_threads(int(threads))
    ours = {"throstle": Ours(program, threads, SIZES[size])}
    both = ours | {"reference": Reference(SIZES[size])}
    for work in ["speak", "step"]:
        report(size, work, int(rounds), both)
    for work in ["step, made twice", "align"]:
        report(size, work, int(rounds), ours)


if __name__ == "__main__":
    main()
