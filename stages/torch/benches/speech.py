"""Frames of speech per second of the text model of Fish Speech: one sentence by the original code,
one by ours, and several at once by ours, alternately, with random weights of the same size and as
many threads. Prints a table in Markdown. CPU time is the sum over all threads, busy-waiting
included.

    speech.py PROGRAM [--size small|published] [--threads 2] [--frames 64] [--prompt 64]
        [--sentences 8] [--rounds 3] [--gpu 0] [--alone] [--json FILE]

`--alone` leaves the original code out, which needs Python only. PROGRAM is the benchmark `speech` of `stage-torch`. The original code generates one sentence at a
time."""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "fixtures"))

SIZES = {
    "small": dict(vocab_size=8192, n_layer=6, n_head=4, n_local_heads=2, dim=256, head_dim=64,
                  intermediate_size=768, max_seq_len=1024, codebook_size=1024, num_codebooks=8,
                  n_fast_layer=2),
    # 860 million parameters.
    "published": dict(vocab_size=155776, n_layer=28, n_head=16, n_local_heads=8, dim=1024,
                      head_dim=128, intermediate_size=3072, max_seq_len=8192,
                      codebook_size=4096, num_codebooks=10, n_fast_layer=4),
}


class Original:
    """The original code, which is only imported where it is used."""

    def __init__(self, a):
        import make_fish_dual_ar as reference
        import torch

        torch.set_num_threads(a.threads)
        torch.manual_seed(1)
        self.torch, self.generate = torch, reference.inference.generate
        device = torch.device("cpu" if a.gpu is None else f"cuda:{a.gpu}")
        config = reference.llama.DualARModelArgs(
            **SIZES[a.size], tie_word_embeddings=False, attention_qk_norm=True,
            scale_codebook_embeddings=True, fast_attention_qk_norm=False, fast_head_dim=64,
            rope_base=1e6, norm_eps=1e-6)
        begin = config.vocab_size - config.codebook_size
        tokenizer = reference.Tokenizer(begin, config.codebook_size, im_end=begin - 1)
        kind = torch.float32 if a.gpu is None else torch.bfloat16
        self.model = reference.Reference(config, tokenizer=tokenizer).to(device, kind).eval()
        with device:
            self.model.setup_caches(1, config.max_seq_len, dtype=kind)
        self.prompt = torch.zeros(1 + config.num_codebooks, a.prompt, dtype=torch.int,
                                  device=device)
        self.prompt[0] = torch.arange(a.prompt) % 1000
        self.frames = a.frames

    def seconds(self):
        """Seconds per frame, since a sentence may end early."""
        start, cpu = time.perf_counter(), time.process_time()
        with self.torch.no_grad():
            spoken = self.generate(
                model=self.model, prompt=self.prompt, max_new_tokens=self.frames,
                audio_masks=None, audio_parts=None, temperature=0.8, top_p=0.8,
                repetition_penalty=1.1)
            frames = int(spoken.shape[1]) - self.prompt.shape[1]
        return (time.perf_counter() - start) / frames, (time.process_time() - cpu) / frames


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--size", choices=SIZES, default="small")
    for name, default in dict(threads=2, frames=64, prompt=64, sentences=8, rounds=3,
                              gpu=None).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    a = parser.parse_args()
    words = [a.size, a.threads, a.frames, a.prompt] + ([] if a.gpu is None else [a.gpu])
    ours = subprocess.Popen([a.program, *map(str, words)], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)
    original = None if a.alone else Original(a)

    def speak(sentences):
        ours.stdin.write(f"{sentences}\n")
        ours.stdin.flush()
        return [float(word) / (sentences * a.frames) for word in ours.stdout.readline().split()]

    works = {"original, one sentence": original.seconds} if original else {}
    works |= {
        "throstle, one sentence": lambda: speak(1),
        f"throstle, {a.sentences} sentences at once": lambda: speak(a.sentences),
    }
    times = {name: [] for name in works}
    # The first round fills the caches of the others.
    for number in range(a.rounds + 1):
        for name, work in works.items():
            both = work()
            if number:
                times[name].append(both)
    ours.stdin.close()
    if ours.wait():
        sys.exit(f"the program ended with {ours.returncode}")
    one, rows = "throstle, one sentence", []
    print("| generation | frames a second | against one sentence | CPU seconds a frame |")
    print("|---|---|---|---|")
    for name, own in times.items():
        rate = 1 / statistics.median(wall for wall, _ in own)
        # Both sides of a ratio are of the same round.
        ratio = statistics.median(first / wall for (first, _), (wall, _) in zip(times[one], own))
        cpu = statistics.median(cpu for _, cpu in own)
        print(f"| {name} | {rate:.2f} | {ratio:.2f} | {cpu:.3f} |")
        rows.append(dict(name=name, frames_per_second=rate, ratio=ratio, cpu_seconds=cpu))
    if a.json:
        a.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
