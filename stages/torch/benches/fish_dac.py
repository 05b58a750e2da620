"""The reference's share of the benchmark of the Fish codec: the seconds of audio per second that it
encodes (all clips as one padded batch, like its own tool) and decodes.

    fish_dac.py FOLDER THREADS [GPU]
"""

import json
import pathlib
import sys
import time

import torch
from safetensors import safe_open

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "fixtures"))
import make_fish_dac as reference  # noqa: E402

# As in `fish_dac.rs`.
SECONDS = [6.0, 2.5, 4.0, 3.0, 5.0, 3.5, 2.0, 4.5]
ROUNDS = 4


def report(what, work):
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    print(f"reference  {what}: {sum(SECONDS) / best:.2f} s of audio a second")


@torch.inference_mode()
def main():
    folder, threads = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(threads)
    # On by default; ours is f32.
    torch.backends.cudnn.allow_tf32 = False
    device = torch.device(f"cuda:{sys.argv[3]}" if len(sys.argv) > 3 else "cpu")
    with safe_open(folder / "model.safetensors", "pt") as file:
        codec = reference.build(json.loads(file.metadata()["config"]))
        weights = {name: file.get_tensor(name).float() for name in file.keys()}
    codec.load_state_dict(weights, strict=False)
    codec.to(device)
    rate = codec.sample_rate
    lengths = torch.tensor([int(seconds * rate) for seconds in SECONDS])
    waves = torch.zeros(len(lengths), 1, int(lengths.max()))
    for row, length in zip(waves, lengths.tolist()):
        at = torch.arange(length)
        row[0, :length] = torch.sin(at * 0.02) * 0.4 + torch.sin(at * 0.31) * 0.1
    lengths, waves = lengths.to(device), waves.to(device)
    codes, frames = codec.encode(waves, lengths)
    report("encode", lambda: codec.encode(waves, lengths))
    report("encode, a clip at a time", lambda: [
        codec.encode(wave[None, :, :length], length[None])
        for wave, length in zip(waves, lengths)])
    report("decode", lambda: [
        codec.decode(clip[:, :count], count[None]) for clip, count in zip(codes, frames)])


if __name__ == "__main__":
    main()
