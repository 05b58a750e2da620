"""XTTS v2 of the published size by coqui-tts 0.27.2: makes its files with random weights, and does each
task as the original code does.

    xtts.py make FOLDER                  the files, in FOLDER/original
    xtts.py TASK FOLDER [--threads 2]    see `TASKS`
"""

import json

import torch

from shared import FIXTURES, SENTENCE, batches, clips, main

import coqui  # noqa: E402, F401
from TTS.tts.configs.xtts_config import XttsConfig  # noqa: E402
from TTS.tts.layers.tortoise.arch_utils import TorchMelSpectrogram  # noqa: E402
from TTS.tts.layers.xtts.dvae import DiscreteVAE  # noqa: E402
from TTS.tts.models.xtts import VoiceBpeTokenizer, Xtts, wav_to_mel_cloning  # noqa: E402

VOCABULARY = FIXTURES.parents[1] / "families/tests/fixtures/xtts/vocab.json"
TEXT_TOKENS, CODES, RATE, STRIDE = 6681, 1024, 22050, 1024
SPOKEN, LONGER = 60, 240


def config_of():
    config = XttsConfig()
    args = config.model_args
    args.gpt_layers, args.gpt_n_model_channels, args.gpt_n_heads = 30, 1024, 16
    args.gpt_use_perceiver_resampler = True
    args.gpt_max_audio_tokens, args.gpt_max_text_tokens = 605, 402
    args.gpt_num_audio_tokens = CODES + 2
    args.gpt_start_audio_token, args.gpt_stop_audio_token = CODES, CODES + 1
    return config


def dvae_of():
    return DiscreteVAE(channels=80, normalization=None, positional_dims=1, num_tokens=CODES,
                       codebook_dim=512, hidden_dim=512, num_resnet_blocks=3, kernel_size=3,
                       num_layers=2, use_transposed_convs=False)


def make(folder):
    torch.manual_seed(1)
    original = folder / "original"
    original.mkdir(parents=True, exist_ok=True)
    known = json.loads(VOCABULARY.read_text())
    words = known["model"]["vocab"]
    # Rows of the published vocabulary without a merge.
    for number in range(TEXT_TOKENS - len(words)):
        words[f"unused{number}"] = max(words.values()) + 1
    (original / "vocab.json").write_text(json.dumps(known, ensure_ascii=False))
    config = config_of()
    config.save_json(str(original / "config.json"))
    model = Xtts(config)
    model.tokenizer = VoiceBpeTokenizer(str(original / "vocab.json"))
    model.init_models()
    # Random weights end at an unknown length: these never end by themselves.
    model.gpt.mel_head.bias.data[CODES + 1] = -1e4
    torch.save({"config": config, "model": model.state_dict()}, original / "model.pth")
    torch.save(dvae_of().state_dict(), original / "dvae.pth")
    torch.save(model.mel_stats, original / "mel_stats.pth")


def load(folder, checkpoint=True):
    config = XttsConfig()
    config.load_json(str(folder / "original/config.json"))
    model = Xtts(config)
    if checkpoint:
        model.load_checkpoint(config, checkpoint_dir=str(folder / "original"), eval=True)
    return model


def do_import(folder):
    load(folder)


@torch.inference_mode()
def encoder(folder):
    """From a sound to its codes."""
    dvae = dvae_of()
    dvae.load_state_dict(torch.load(folder / "original/dvae.pth"), strict=False)
    dvae.eval()
    mel = TorchMelSpectrogram(mel_norm_file=str(folder / "original/mel_stats.pth"),
                              sampling_rate=RATE)
    return torch.inference_mode()(lambda sound: dvae.get_codebook_indices(mel(sound))[0])


def encode(folder):
    codes_of = encoder(folder)
    for sound, _ in clips(folder, RATE):
        codes_of(sound)


@torch.inference_mode()
def voice(folder, model=None):
    model = model or load(folder)
    sound = next(iter(clips(folder, RATE)))[0]
    return (model.get_gpt_cond_latents(sound, RATE), model.get_speaker_embedding(sound, RATE))


def step(folder, checkpointing=False):
    """Steps of the recipe of the original: whole GPT, AdamW, float32. Its trainer makes the codes in
    each step too; here they are made before."""
    codes_of = encoder(folder)
    data = [[(codes_of(sound).clone(), sound, text) for sound, text in batch]
            for batch in batches(folder, RATE)]
    whole = load(folder)
    model, tokens = whole.gpt, whole.tokenizer
    del whole, codes_of
    model.train()
    if checkpointing:
        model.gpt.gradient_checkpointing_enable({"use_reentrant": False})
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-6, betas=(0.9, 0.96), eps=1e-8,
                                  weight_decay=1e-2)
    for batch in data:
        loss = model(*inputs(folder, tokens, batch))
        total = 0.01 * loss[0] + loss[1]
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        print("step", flush=True)


def inputs(folder, tokens, batch):
    """Texts, codes and conditioning crops of some clips, padded."""
    pad = torch.nn.utils.rnn.pad_sequence
    text = [torch.tensor(tokens.encode(line.lower(), "en")) for _, _, line in batch]
    codes = [codes for codes, _, _ in batch]
    stats = torch.load(folder / "original/mel_stats.pth")
    crops = [torch.nn.functional.pad(sound, (0, 132300))[:, :99225] for _, sound, _ in batch]
    mels = torch.stack([
        wav_to_mel_cloning(crop, mel_norms=stats, n_fft=2048, hop_length=256, win_length=1024,
                           power=2, normalized=False, sample_rate=RATE, f_min=0, f_max=8000,
                           n_mels=80) for crop in crops])
    lengths = [torch.tensor([len(row) for row in rows]) for rows in (text, codes)]
    return (pad(text, batch_first=True), lengths[0], pad(codes, batch_first=True),
            lengths[1] * STRIDE, mels.reshape(len(batch), 1, 80, -1))


def sentence(folder, spoken=SPOKEN):
    model = load(folder)
    latents, speaker = voice(folder, model)
    model.gpt.max_gen_mel_tokens = spoken
    model.inference(SENTENCE, "en", latents, speaker)


TASKS = {
    "make": make, "import": do_import, "codes": encode, "voice": voice, "step": step,
    "checkpointing": lambda folder: step(folder, checkpointing=True), "sentence": sentence,
    "longer": lambda folder: sentence(folder, LONGER),
}


if __name__ == "__main__":
    main(TASKS)
