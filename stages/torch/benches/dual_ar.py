"""The reference's share of the benchmark of the text model: trains a random model of the given
size on random rows, and prints how long a step takes and what it takes of a GPU's memory.
`tools/bench_models.sh` runs it next to ours.

    dual_ar.py --threads 2 --steps 5 --dim 256 ...
"""

import argparse
import pathlib
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "fixtures"))
import make_fish_dual_ar as reference  # noqa: E402
from fish_speech.models.text2semantic import lora  # noqa: E402


def used(device):
    """Bytes that are taken of a GPU, by whomever; none of a CPU."""
    if device.type == "cpu":
        return None
    free, total = torch.cuda.mem_get_info(device)
    return total - free


def main():
    parser = argparse.ArgumentParser()
    for name, default in dict(threads=2, steps=5, dim=256, layers=6, fast_layers=2, vocab=8192,
                              codebook_size=1024, codebooks=8, rows=2, text=64,
                              frames=192, head_dim=64, length=1024, gpu=-1, bf16=0,
                              rank=0).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    heads = a.dim // 64
    device = torch.device("cpu" if a.gpu < 0 else f"cuda:{a.gpu}")
    before = used(device)
    # As ours.
    for recompute in (True, False):
        config = reference.llama.DualARModelArgs(
            vocab_size=a.vocab, n_layer=a.layers, n_head=heads, n_local_heads=heads // 2,
            dim=a.dim, head_dim=a.head_dim, fast_head_dim=64, intermediate_size=3 * a.dim, max_seq_len=a.length,
            tie_word_embeddings=False, attention_qk_norm=True, codebook_size=a.codebook_size,
            num_codebooks=a.codebooks, use_gradient_checkpointing=recompute,
            scale_codebook_embeddings=True, n_fast_layer=a.fast_layers,
            fast_attention_qk_norm=False, rope_base=1e6, norm_eps=1e-6)
        begin = a.vocab - a.codebook_size
        tokenizer = reference.Tokenizer(begin, a.codebook_size, im_end=begin - 1)
        model = reference.Reference(config, tokenizer=tokenizer)
        if a.rank:
            lora.setup_lora(model, lora.LoraConfig(r=a.rank, lora_alpha=2 * a.rank))
        model.to(device, torch.bfloat16 if a.bf16 else torch.float32).train()
        length = a.text + a.frames
        codes = torch.randint(0, a.codebook_size, (a.rows, a.codebooks, a.frames))
        tokens = torch.zeros(a.rows, 1 + a.codebooks, length + 1, dtype=torch.long)
        tokens[:, 0] = torch.randint(0, begin - 1, (a.rows, length + 1))
        tokens[:, 1:, a.text:length] = codes
        tokens[:, 0, a.text:length] = codes[:, 0] + begin
        tokens[:, 0, length] = begin - 1
        labels = torch.full_like(tokens, reference.IGNORED)
        labels[:, 0, a.text:] = tokens[:, 0, a.text:]
        labels[:, 1:, a.text:length] = codes
        tokens, labels = tokens[..., :-1], labels[..., 1:]
        padding = torch.zeros(a.rows, length, dtype=torch.bool)
        tokens, labels, padding = (each.to(device) for each in (tokens, labels, padding))
        parameters = [each for each in model.parameters() if each.requires_grad]
        optimizer = torch.optim.AdamW(parameters, lr=1e-4, betas=(0.9, 0.95), eps=1e-5,
                                      weight_decay=0.0)
        times = []
        for _ in range(a.steps + 1):
            start = time.perf_counter()
            base, semantic, *_ = model.losses(tokens, labels, padding)
            optimizer.zero_grad()
            (base + semantic).backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            if before:
                torch.cuda.synchronize(device)
            times.append(time.perf_counter() - start)
        # The first step makes what the others reuse.
        seconds = sorted(times[1:])[a.steps // 2]
        print("%-28s %8.0f tokens/s   %6.3f s a step   loss %.3f" % (
            "reference" + (", run again" if recompute else ""), a.rows * length / seconds,
            seconds, (base + semantic).item()), flush=True)
        if before:
            print("%-28s %8.2f GB" % ("", (used(device) - before) / 1e9), flush=True)


if __name__ == "__main__":
    main()
