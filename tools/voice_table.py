"""The results of `make voice`: `python voice_table.py OUT` writes a table and three recordings into OUT.

`table.md` has what the judges say of the base, of each state and of real recordings. `before.wav`, `after.wav` and
`real.wav` have the same five sentences, spoken by the base, by the chosen state and by a person.
"""

import json
import os
import sys
import wave

SENTENCES = 5
PAUSE = 0.5  # seconds between two sentences


def figure(measure):
    return f"{measure['value']:.3f} ({measure['low']:.3f} to {measure['high']:.3f})" if measure else ""


def table(gain, chosen):
    names = list(gain["models"][0]["measures"])
    rows = [["sound", *names], ["---"] * (len(names) + 1)]
    for row in gain["models"] + gain["ceilings"]:
        name = f"**{row['id']}**, chosen" if row["id"] == chosen else row["id"]
        rows.append([name, *(figure(row["measures"].get(measure)) for measure in names)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def join(files, to):
    with wave.open(to, "wb") as whole:
        for number, file in enumerate(files):
            with wave.open(file) as clip:
                if number == 0:
                    whole.setparams(clip.getparams())
                whole.writeframes(clip.readframes(clip.getnframes()))
                silence = int(PAUSE * clip.getframerate()) * clip.getsampwidth() * clip.getnchannels()
                whole.writeframes(bytes(silence))


def recordings(folder):
    """The recordings below a folder, by their paths in it."""
    found = (os.path.join(path, name) for path, _, names in os.walk(folder) for name in names)
    return {os.path.relpath(file, folder) for file in found}


def sentences(folders):
    """Spread over the names that are in every folder."""
    names = sorted(set.intersection(*(recordings(folder) for folder in folders)))
    return [names[at * len(names) // SENTENCES] for at in range(min(SENTENCES, len(names)))]


def write(out):
    with open(os.path.join(out, "gain.json"), encoding="utf-8") as file:
        gain = json.load(file)
    with open(os.path.join(out, "choice.json"), encoding="utf-8") as file:
        chosen = json.load(file)["chosen"] or gain["base"]
    spoken = os.path.join(out, "spoken")
    sides = {"before": gain["base"], "after": chosen, "real": "recordings"}
    folders = {side: os.path.join(spoken, name) for side, name in sides.items()}
    for side, folder in folders.items():
        files = [os.path.join(folder, name) for name in sentences(folders.values())]
        join(files, os.path.join(out, side + ".wav"))
    text = table(gain, chosen)
    with open(os.path.join(out, "table.md"), "w", encoding="utf-8") as file:
        file.write(text)
    print(text, end="")


if len(sys.argv) != 2:
    sys.exit("usage: python voice_table.py OUT")
write(sys.argv[1])
