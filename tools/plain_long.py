"""Aligns the same long recordings twice: by the recipe `long-recordings`, and by a plain script of
well-known parts, which cuts at pauses into segments of up to 30 s (greedily, as Emilia and WhisperX),
lets transformers hear each, aligns the whole recording with `torchaudio.functional.forced_align`, and
drops the segments with the lowest mean score. The recipe drops those with a bad edge and the lowest
worst part of the path. Both drop segments until one good segment in twenty is lost. Prints both in one table.

    python3 pipelines/long-recordings/make_data.py --to /tmp/hour --recordings 6 --minutes 10 \\
        --every 12 --pause 0.3 --scripts
    .reference/bin/python tools/plain_long.py /tmp/hour target/release/throstle

Both sides get the recordings, scripts and the recogniser of `make_data.py`, which also writes the truth.
"""

import json
import math
import resource
import shutil
import statistics
import subprocess
import sys
import wave
from pathlib import Path

import numpy
import torch
import torchaudio
from transformers import Wav2Vec2ForCTC

RATE, HOP = 16_000, 320
LONGEST = 30 * RATE
RECIPE = Path(__file__).parent.parent / "pipelines/long-recordings/pipeline.toml"
HARMLESS = (None, "silence", "not-read")


def read(path):
    with wave.open(str(path)) as file:
        return numpy.frombuffer(file.readframes(file.getnframes()), dtype="<i2")


def write(path, sound):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(sound.astype("<i2").tobytes())


# ------------------------------------------------------------------ the plain script


def pauses(sound):
    """The middles of runs of at least 300 ms below -35 dB of the loudest frame of the file."""
    frames = sound[:len(sound) // HOP * HOP].reshape(-1, HOP).astype(float)
    level = numpy.sqrt((frames ** 2).mean(axis=1))
    quiet = level < level.max() * 10 ** (-35 / 20)
    found, start = [], None
    for at, is_quiet in enumerate([*quiet, False]):
        if is_quiet and start is None:
            start = at
        elif not is_quiet and start is not None:
            if at - start >= 15:
                found.append((start + at) // 2 * HOP)
            start = None
    return found


def greedy(sound):
    """Segments as long as fit, cut at pauses; without one, at 30 s."""
    edges, start = [0], 0
    places = [*pauses(sound), len(sound)]
    for place, behind in zip(places, [*places[1:], None]):
        if place == len(sound) or behind - start > LONGEST:
            while place - start > LONGEST:
                start += LONGEST
                edges.append(start)
            edges.append(place)
            start = place
    return list(zip(edges, edges[1:]))


class Plain:
    def __init__(self, folder):
        self.model = Wav2Vec2ForCTC.from_pretrained(folder).eval()
        self.symbols = json.loads((Path(folder) / "vocab.json").read_text())

    def emissions(self, sound):
        values = torch.tensor(sound.astype("float32") / 32768)
        values = (values - values.mean()) / torch.sqrt(values.var(unbiased=False) + 1e-7)
        with torch.no_grad():
            return self.model(values[None]).logits.log_softmax(-1)[0]

    def align(self, sound, text):
        """Segments with their words, times and mean scores."""
        segments = greedy(sound)
        parts = [self.emissions(sound[start:end]) for start, end in segments]
        times = [start / RATE + 0.02 * frame for (start, _), part in zip(segments, parts)
                 for frame in range(len(part))]
        times.append(segments[-1][1] / RATE)
        words = [word.strip(".").lower() for word in text.split()]
        letters = "|".join(words)
        targets = torch.tensor([[self.symbols[letter] for letter in letters]])
        path, scores = torchaudio.functional.forced_align(torch.cat(parts)[None], targets)
        spans = torchaudio.functional.merge_tokens(path[0], scores[0].exp())
        found, letter = [], 0
        for word in words:
            own = spans[letter:letter + len(word)]
            letter += len(word) + 1
            frames = sum(len(span) for span in own)
            score = sum(span.score * len(span) for span in own) / max(frames, 1)
            found.append((times[own[0].start], times[own[-1].end], word, score))
        clips = []
        for start, end in segments:
            inside = [word for word in found
                      if start <= (word[0] + word[1]) / 2 * RATE < end]
            score = statistics.mean(word[3] for word in inside) if inside else 0.0
            clips.append({"start": start / RATE, "end": end / RATE, "words": inside, "score": score,
                          "bytes": hash(sound[start:end].tobytes())})
        return clips


# ------------------------------------------------------------------ the recipe


def recipe(folder, program):
    """Runs the recipe up to the texts; what was executed, by stage."""
    manifest = folder / "pipeline.toml"
    text = RECIPE.read_text().replace("export = { unheard = {", "export = { output = { words = "
                                      "\"out/words/{id}.json\" }, unheard = {")
    manifest.write_text(text)
    shutil.copy(RECIPE.with_name("corrections.csv"), folder)
    ran = subprocess.run([program, "run", str(folder), "aligned", "--json"], capture_output=True,
                         text=True)
    assert ran.returncode == 0, ran.stdout
    finished = json.loads(ran.stdout.splitlines()[-1])
    return {name: counts["executed"] for name, counts in finished["stages"].items()}


def items(folder, program, stage):
    told = subprocess.run([program, "items", stage, "-m", str(folder), "--format", "jsonl"],
                          capture_output=True, text=True, check=True).stdout
    return {item["id"]: item for item in map(json.loads, told.splitlines())}


def clips_of_recipe(folder, program):
    """Segments by recording, with their words. One without a text or with a bad edge has no score."""
    segments = items(folder, program, "segments")
    aligned = items(folder, program, "aligned")
    clips = {}
    for name, segment in segments.items():
        start, words, score = segment["start"], [], -math.inf
        if name in aligned:
            if aligned[name]["align_edge"] >= 0.3:
                score = aligned[name]["align_worst"]
            told = json.loads((folder / f"out/words/{name}.json").read_text())
            words = [(start + before, start + behind, word.lower(), 1.0)
                     for before, behind, word in told]
        clips.setdefault(segment["recording"], []).append(
            {"start": start, "end": start + segment["seconds"], "words": words,
             "score": score, "bytes": name})
    for own in clips.values():
        own.sort(key=lambda clip: clip["start"])
    return clips


# ------------------------------------------------------------------ the truth


def errors(sentences, clips):
    """Distances between true and found middles of neighbouring words, in seconds. A word that is
    nowhere near, or in no clip, is a second away."""
    found = sorted(word for clip in clips for word in clip["words"])
    distances = []
    for part in sentences:
        said = part["words"] if part["fault"] is None else []
        for one, other in zip(said, said[1:]):
            truth = (one[1] + other[0]) / 2
            near = [abs((a[1] + b[0]) / 2 - truth) for a, b in zip(found, found[1:])
                    if a[2] == one[2] and b[2] == other[2] and abs(a[0] - one[0]) < 5]
            distances.append(min(near, default=1.0))
    return distances


def is_good(clip, sentences):
    """Its text is what is said in it, and no fault is in it."""
    said = []
    for part in sentences:
        overlap = min(clip["end"], part["end"]) - max(clip["start"], part["start"])
        if overlap > 0.05:
            # A word that is wholly clipped is no fault of a segment whose text lacks it.
            is_clipped = part["fault"] in ("clipped-start", "clipped-end") and not part["is_cut"]
            if part["fault"] not in HARMLESS and not is_clipped:
                return False
            said += [word for start, end, word in part["words"]
                     if clip["start"] <= (start + end) / 2 < clip["end"]]
    return bool(said) and said == [word[2] for word in clip["words"]]


def cut_words(clips, sentences):
    """Cuts that are more than 30 ms inside a word."""
    words = [word for part in sentences for word in part["words"]]
    return sum(any(word[0] + 0.03 < clip["start"] < word[1] - 0.03 for word in words)
               for clip in clips)


def figures(clips, truth):
    """The rows of one side. The limit of the score loses one good clip in twenty."""
    pairs = [(clip, is_good(clip, truth[name])) for name, own in clips.items() for clip in own]
    good = sorted(clip["score"] for clip, is_fine in pairs if is_fine)
    bad = [clip["score"] for clip, is_fine in pairs if not is_fine and clip["words"]]
    # Nothing makes up for a segment without a score.
    limit = max(good[len(good) // 20], -1e9)
    distances = sorted(distance for name, own in clips.items()
                       for distance in errors(truth[name], own))
    share = lambda part, all: 100 * part / max(all, 1)
    kept = sum(score >= limit for score in good)
    through = sum(score >= limit for score in bad)
    return {
        "segments": len(pairs),
        "middles of words, median": f"{1000 * statistics.median(distances):.0f} ms",
        "middles of words, p95": f"{1000 * distances[len(distances) * 95 // 100]:.0f} ms",
        "words more than 200 ms off or lost":
            f"{share(sum(distance > 0.2 for distance in distances), len(distances)):.1f} %",
        "cuts inside a word": sum(cut_words(own, truth[name]) for name, own in clips.items()),
        "segments without a fault": f"{len(good)} of {len(pairs)}",
        "of these lost": f"{share(len(good) - kept, len(good)):.1f} %",
        "segments with a fault and a text, let through": f"{through} of {len(bad)}",
        "kept segments with a fault": f"{share(through, kept + through):.1f} %",
    }


def seconds(who):
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def timed(who, work):
    before = seconds(who)
    result = work()
    return result, seconds(who) - before


def main():
    torch.set_num_threads(1)
    folder, program = Path(sys.argv[1]), str(Path(sys.argv[2]).absolute())
    truth = json.loads((folder / "truth.json").read_text())
    for leftover in (".throstle", "out"):
        shutil.rmtree(folder / leftover, ignore_errors=True)
    plain = Plain(folder / "models/recogniser")

    def align(name):
        return plain.align(read(folder / f"data/{name}.wav"),
                           (folder / f"data/{name}.txt").read_text())

    theirs, plain_cost = timed(resource.RUSAGE_SELF,
                               lambda: {name: align(name) for name in truth})
    _, own_cost = timed(resource.RUSAGE_CHILDREN, lambda: recipe(folder, program))
    ours = clips_of_recipe(folder, program)
    rows = {"plain script": figures(theirs, truth), "recipe": figures(ours, truth)}
    rows["plain script"]["processor time"] = f"{plain_cost:.0f} s"
    rows["recipe"]["processor time"] = f"{own_cost:.0f} s"

    # Ten seconds of the last recording are put into the middle of the first one.
    first, last = min(truth), max(truth)
    path = folder / f"data/{first}.wav"
    before = read(path)
    middle = len(before) // 2
    write(path, numpy.concatenate([before[:middle], read(folder / f"data/{last}.wav")[:10 * RATE + 37],
                                   before[middle:]]))
    edited, cost = timed(resource.RUSAGE_SELF, lambda: align(first))
    known = {clip["bytes"] for own in theirs.values() for clip in own}
    changed = sum(clip["bytes"] not in known for clip in edited)
    rows["plain script"]["an edit: segments heard again"] = f"{len(edited)}, changed are {changed}"
    rows["plain script"]["an edit: processor time"] = f"{cost:.1f} s"
    executed, cost = timed(resource.RUSAGE_CHILDREN, lambda: recipe(folder, program))
    rows["recipe"]["an edit: segments heard again"] = str(executed.get("heard", 0))
    rows["recipe"]["an edit: processor time"] = f"{cost:.1f} s"
    write(path, before)

    print("| | plain script | recipe |\n|---|---|---|")
    for name in rows["plain script"]:
        print(f"| {name} | {rows['plain script'][name]} | {rows['recipe'][name]} |")


if __name__ == "__main__":
    main()
