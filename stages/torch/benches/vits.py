"""The reference's share of the benchmark of VITS: the published size with random weights.

    vits.py THREADS
"""

import pathlib
import sys
import time

import torch
from transformers import VitsConfig, VitsModel

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "fixtures"))
import make_vits as reference  # noqa: E402

# As in `vits.rs`.
ROUNDS, FRAMES, TOKENS = 5, 200, 121
# What finetune-hf-vits trains with.
DISCRIMINATOR = dict(
    discriminator_scale_channels=[1, 16, 64, 256, 1024], discriminator_periods=[2, 3, 5, 7, 11],
    discriminator_period_channels=[1, 32, 128, 512, 1024], leaky_relu_slope=0.1)


class Arguments:
    """What the generator of fixtures asks for."""

    rates, points, bands, rate, segment = [8, 8, 2, 2], 1024, 80, 16000, 32
    stochastic, speakers, mel_weight, kl_weight = 1, 1, 45.0, 1.0


def report(what, work):
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    print(f"reference  {what}: {best * 1e3:.3f} ms")


def main():
    torch.set_num_threads(int(sys.argv[1]))
    model = VitsModel(VitsConfig()).eval()
    judge = reference.Discriminator(DISCRIMINATOR)
    model.decoder.apply_weight_norm(), judge.apply_weight_norm()
    latents, mask = torch.randn(1, 192, FRAMES), torch.ones(1, 1, FRAMES)

    @torch.no_grad()
    def sound():
        model.decoder(model.flow(latents, mask, reverse=True))

    report("sound from 200 frames (3.2 s)", sound)
    wave = torch.sin(torch.arange(FRAMES * 256) * 0.05)[None]
    spec = reference.spectrogram(Arguments, wave)
    ids, live = torch.ones(1, TOKENS, dtype=torch.long), torch.ones(1, TOKENS, dtype=torch.long)
    batch = ids, live, [FRAMES], spec, wave, None, [50]
    noise = [torch.randn(1, 192, FRAMES), torch.randn(1, 2, TOKENS)]
    # Its loops over frames are no part of any reference.
    reference.best_path = lambda scores: [at * TOKENS // FRAMES for at in range(FRAMES)]

    def learn():
        _, judged, generated = reference.learn(Arguments, model, judge, batch, noise)
        judged().backward()
        generated()[1].backward()

    report("losses and gradients of a clip of 3.2 s", learn)


if __name__ == "__main__":
    main()
