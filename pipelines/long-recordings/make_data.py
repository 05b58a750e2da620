"""Makes recordings in an invented speech, their texts, and a recogniser for it.

    python3 make_data.py                          data/ and models/recogniser beside this file
    python3 make_data.py --recordings 6 --minutes 10 --to /tmp/hour

Each letter is a short tone of its own pitch, so the position of every word is known to the sample, and
a recogniser can be computed instead of trained: its only convolution detects these pitches.
The first of the two recordings has subtitles and the second a script. Faults are planted in both, and
`truth.json` lists them. The same seed gives the same bytes. Needs only Python.
"""

import argparse
import json
import math
import random
import struct
import wave
from array import array
from pathlib import Path

RATE = 16_000
LETTERS = "abcdefghijklmnopqrstuvwxyz"
# The last tone is the sound between words.
PITCHES = [300 + 110 * number for number in range(len(LETTERS) + 1)]
LOUD, SOFT = 8_000, 3_000
# Of the noise behind everything.
NOISE = 30
FAULTS = ["wrong-word", "missing-word", "extra-word", "clipped-end", "clipped-start", "noise", "music",
          "silence", "no-text", "not-read", "other-voice"]


class Voice:
    """The sounds of a voice, made once and used many times."""

    def __init__(self, chance, shift=0.0):
        self.chance = chance
        self.hiss = array("h", (chance.randint(-NOISE, NOISE) for _ in range(1 << 17)))
        self.letters = {
            letter: [self.tone(PITCHES[at] + shift, seconds, LOUD)
                     for seconds in (0.06, 0.08, 0.1) for _ in range(3)]
            for at, letter in enumerate(LETTERS)
        }
        self.between = [self.tone(PITCHES[-1] + shift, 0.05, SOFT) for _ in range(3)]

    def tone(self, pitch, seconds, loud):
        count, phase = int(seconds * RATE), self.chance.uniform(0, math.tau)
        fade, turn = 0.008 * RATE, math.tau * pitch / RATE
        shape = (min(1.0, at / fade, (count - at) / fade) for at in range(count))
        hiss = self.quiet(seconds)
        return array("h", (int(loud * rise * math.sin(turn * at + phase)) + hiss[at]
                           for at, rise in enumerate(shape)))

    def quiet(self, seconds):
        count = int(seconds * RATE)
        sound = array("h")
        while len(sound) < count:
            start = self.chance.randrange(len(self.hiss) - 4_096)
            sound.extend(self.hiss[start:start + min(4_096, count - len(sound))])
        return sound

    def loud_noise(self, seconds):
        return array("h", (300 * sample % 12_000 - 6_000 for sample in self.quiet(seconds)))

    def music(self, seconds):
        """Chords without a pause."""
        sound = array("h")
        while len(sound) < seconds * RATE:
            chord = [220 * 2 ** (self.chance.randrange(24) / 12) for _ in range(3)]
            for at in range(RATE // 2):
                swell = 0.6 + 0.4 * math.sin(math.pi * at / (RATE // 2))
                level = sum(math.sin(math.tau * pitch * at / RATE) for pitch in chord)
                sound.append(int(2_500 * swell * level))
        return sound


class Recording:
    """Sound with the truth about it."""

    def __init__(self, chance, mistakes, shortest):
        self.chance, self.mistakes, self.shortest = chance, mistakes, shortest
        self.sound, self.sentences = array("h"), []

    def pause(self, voice):
        seconds = 0.47 * math.exp(0.6 * self.chance.gauss(0, 1))
        self.sound.extend(voice.quiet(min(max(seconds, self.shortest), 3.0)))

    def say(self, voice, words):
        """Words with their times in seconds."""
        told = []
        for at, word in enumerate(words):
            if at:
                self.sound.extend(voice.quiet(0.02))
                self.sound.extend(self.chance.choice(voice.between))
                self.sound.extend(voice.quiet(0.02))
            start, before = len(self.sound), ""
            for letter in word:
                heard = letter
                if self.chance.random() < self.mistakes:
                    heard = self.chance.choice(LETTERS)
                # Between two equal letters there is more room.
                self.sound.extend(voice.quiet(0.05 if heard == before else 0.025))
                sound = self.chance.choice(voice.letters[heard])
                self.sound.extend(sound if heard == letter else slurred(
                    sound, self.chance.choice(voice.letters[letter])))
                before = heard
            told.append([start / RATE, len(self.sound) / RATE, word])
        return told

    def write(self, path):
        with wave.open(str(path), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes(self.sound.tobytes())


def slurred(loud, soft):
    """A letter that sounds more like another one than like itself."""
    soft = [*soft, *[0] * len(loud)]
    return array("h", (int(one + 0.85 * other) for one, other in zip(loud, soft)))


def sentence(chance, count):
    syllable = lambda: chance.choice("bdfghklmnprstvw") + chance.choice("aeiou")
    return ["".join(syllable() for _ in range(chance.randint(1, 3))) for _ in range(count)]


def written(words):
    text = " ".join(words)
    return text[:1].upper() + text[1:] + "." if words else ""


def record(chance, recording, seconds, every, faults):
    """A recording of sentences; one in `every` has a fault, each kind in its turn."""
    own, other = Voice(chance), Voice(chance, shift=55.0)
    recording.pause(own)
    number = 0
    while len(recording.sound) < seconds * RATE:
        fault = faults[number // every % len(faults)] if number % every == every - 1 else None
        number += 1
        add(recording, own, other, fault)
        recording.pause(own)


def add(recording, own, other, fault):
    """A sentence, or something else."""
    chance, start = recording.chance, len(recording.sound)
    words = sentence(chance, chance.randint(4, 9))
    text, said = list(words), []
    place = chance.randrange(1, len(words) - 1)
    if fault == "wrong-word":
        text[place] = "".join(reversed(text[place])) + "zu"
    elif fault == "missing-word":
        text[place] = ""
    elif fault == "extra-word":
        text.insert(place, sentence(chance, 1)[0] + "zoru")
    elif fault == "no-text":
        text = []
    text = [word for word in text if word]
    if fault == "noise":
        recording.sound.extend(own.loud_noise(chance.uniform(2, 4)))
    elif fault == "music":
        recording.sound.extend(own.music(chance.randint(3, 5)))
    elif fault == "silence":
        recording.sound.extend(array("h", bytes(2 * RATE * chance.randint(3, 5))))
    elif fault != "not-read":
        said = recording.say(other if fault == "other-voice" else own, words)
    if fault in ("noise", "music", "silence"):
        text = []
    is_cut = False
    if fault == "clipped-end":
        del recording.sound[-int(chance.uniform(0.15, 0.25) * RATE):]
        said, is_cut = clipped(said, start / RATE, len(recording.sound) / RATE)
    elif fault == "clipped-start":
        lost = int(chance.uniform(0.2, 0.3) * RATE)
        del recording.sound[start:start + lost]
        said = [[word[0] - lost / RATE, word[1] - lost / RATE, word[2]] for word in said]
        said, is_cut = clipped(said, start / RATE, len(recording.sound) / RATE)
    recording.sentences.append({
        "text": written(text), "fault": fault, "words": said, "is_cut": is_cut,
        "start": start / RATE, "end": len(recording.sound) / RATE,
    })


def clipped(words, start, end):
    """The words that are still there, and whether one of them is cut. Before its first letter a word
    has 25 ms of quiet."""
    left = [word for word in words if word[1] > start and word[0] + 0.025 < end]
    is_cut = any(word[0] + 0.025 < start or word[1] > end for word in left)
    return [[max(word[0], start), min(word[1], end), word[2]] for word in left], is_cut


def clock(seconds):
    whole = max(0, round(seconds * 1000))
    return f"{whole // 3_600_000:02}:{whole // 60_000 % 60:02}:{whole // 1000 % 60:02},{whole % 1000:03}"


def subtitles(recording, chance):
    """Cues that come up to a second too early or too late."""
    blocks = []
    for part in recording.sentences:
        if part["text"]:
            shift = chance.uniform(-1, 1)
            start, end = max(0, part["start"] + shift), max(0.1, part["end"] + shift)
            blocks.append(f"{len(blocks) + 1}\n{clock(start)} --> {clock(end)}\n{part['text']}\n")
    return "\n".join(blocks)


def script(recording):
    """Paragraphs of a few sentences, after a heading that nobody reads."""
    texts = [part["text"] for part in recording.sentences if part["text"]]
    paragraphs = [" ".join(texts[at:at + 5]) for at in range(0, len(texts), 5)]
    return "\n\n".join(["Chapter one", *paragraphs]) + "\n"


def recogniser(folder):
    """A `Wav2Vec2ForCTC` of transformers. Its convolution has the cosine and the sine of each pitch,
    both in either sign, so that rectified ones add up to a level; the next layer adds them, and one
    constant level, above which a letter is heard, is that of the blank."""
    tones, window, width = len(PITCHES), 400, 32
    constant = tones
    tensors = {}

    def tensor(name, shape, value):
        values = array("f", (value(at) for at in range(math.prod(shape))))
        tensors[name] = (shape, values)

    def linear(name, outputs, inputs, value):
        tensor(f"{name}.weight", [outputs, inputs], lambda at: value(at // inputs, at % inputs))
        tensor(f"{name}.bias", [outputs], lambda at: 0.0)

    def norm(name, size):
        tensor(f"{name}.weight", [size], lambda at: 1.0)
        tensor(f"{name}.bias", [size], lambda at: 0.0)

    def listen(at):
        channel, sample = at // window, at % window
        shape = 0.5 - 0.5 * math.cos(math.tau * (sample + 0.5) / window)
        turn = math.tau * PITCHES[channel // 4] * sample / RATE
        wave = math.cos(turn) if channel % 2 == 0 else math.sin(turn)
        return shape * (wave if channel % 4 < 2 else -wave)

    body = "wav2vec2"
    first = f"{body}.feature_extractor.conv_layers.0"
    tensor(f"{first}.conv.weight", [4 * tones, 1, window], listen)
    norm(f"{first}.layer_norm", 4 * tones)
    norm(f"{body}.feature_projection.layer_norm", 4 * tones)
    projection = f"{body}.feature_projection.projection"
    linear(projection, width, 4 * tones, lambda out, at: 1.0 if at // 4 == out else 0.0)
    tensor(f"{projection}.bias", [width], lambda at: LEVEL if at == constant else 0.0)
    positions = f"{body}.encoder.pos_conv_embed.conv"
    tensor(f"{positions}.parametrizations.weight.original0", [1, 1, 3], lambda at: 0.0)
    tensor(f"{positions}.parametrizations.weight.original1", [width, width, 3], lambda at: 1.0)
    tensor(f"{positions}.bias", [width], lambda at: 0.0)
    norm(f"{body}.encoder.layer_norm", width)
    layer = f"{body}.encoder.layers.0"
    for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
        linear(f"{layer}.attention.{name}", width, width, lambda out, at: 0.0)
    norm(f"{layer}.layer_norm", width)
    linear(f"{layer}.feed_forward.intermediate_dense", width, width, lambda out, at: 0.0)
    linear(f"{layer}.feed_forward.output_dense", width, width, lambda out, at: 0.0)
    norm(f"{layer}.final_layer_norm", width)
    # Symbols: blank, the space between words, the letters.
    source = [constant, tones - 1, *range(tones - 1)]
    linear("lm_head", len(source), width, lambda out, at: STEEP if source[out] == at else 0.0)

    folder.mkdir(parents=True, exist_ok=True)
    header, data = {}, b""
    for name, (shape, values) in sorted(tensors.items()):
        place = [len(data), len(data) + 4 * len(values)]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": place}
        data += values.tobytes()
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + data)
    config = {
        "architectures": ["Wav2Vec2ForCTC"], "model_type": "wav2vec2", "vocab_size": len(source),
        "hidden_size": width, "num_hidden_layers": 1, "num_attention_heads": 1,
        "intermediate_size": width, "hidden_act": "gelu", "feat_extract_activation": "gelu",
        "feat_extract_norm": "layer", "conv_dim": [4 * tones], "conv_kernel": [window],
        "conv_stride": [320], "conv_bias": False, "num_feat_extract_layers": 1,
        "num_conv_pos_embeddings": 3, "num_conv_pos_embedding_groups": 1,
        "do_stable_layer_norm": False, "layer_norm_eps": 1e-5, "pad_token_id": 0,
    }
    symbols = {"<pad>": 0, "|": 1, **{letter: at + 2 for at, letter in enumerate(LETTERS)}}
    preprocessor = {"do_normalize": True, "sampling_rate": RATE, "feature_size": 1}
    for name, content in [("config", config), ("vocab", symbols),
                          ("preprocessor_config", preprocessor)]:
        (folder / f"{name}.json").write_text(json.dumps(content, indent=2) + "\n")


# The level above which a letter is heard, and how sure the recogniser is of what it hears.
LEVEL, STEEP = 8.0, 4.0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, default=Path(__file__).parent, help="the folder")
    parser.add_argument("--recordings", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=2.5, help="of each recording")
    parser.add_argument("--mistakes", type=float, default=0.01, help="share of slurred letters")
    parser.add_argument("--pause", type=float, default=1.0, help="shortest pause in seconds")
    parser.add_argument("--every", type=int, default=3, help="one sentence in this many has a fault")
    parser.add_argument("--faults", default=",".join(FAULTS), help="kinds, with commas between")
    parser.add_argument("--scripts", action="store_true", help="scripts only, and no subtitles")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    data, truth = arguments.to / "data", {}
    data.mkdir(parents=True, exist_ok=True)
    for number in range(arguments.recordings):
        recording = Recording(chance, arguments.mistakes, arguments.pause)
        record(chance, recording, 60 * arguments.minutes, arguments.every,
               arguments.faults.split(","))
        has_cues = number % 2 == 0 and not arguments.scripts
        name = f"{'podcast' if has_cues else 'chapter'}{number + 1}"
        recording.write(data / f"{name}.wav")
        text = subtitles(recording, chance) if has_cues else script(recording)
        (data / f"{name}.{'srt' if has_cues else 'txt'}").write_text(text)
        truth[name] = recording.sentences
    (arguments.to / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")
    recogniser(arguments.to / "models/recogniser")


if __name__ == "__main__":
    main()
