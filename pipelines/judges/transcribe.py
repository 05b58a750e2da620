"""A transcript by Whisper with faster-whisper, on the CPU. The artifact is a model of CTranslate2.

`parameters = { language = "en" }`; without it, Whisper guesses the language of each recording.
"""

import os

from faster_whisper import WhisperModel

from throstle import stage


def load(setup):
    folder = os.path.dirname(setup.artifact["model.bin"])
    model = WhisperModel(folder, device="cpu", compute_type="int8", cpu_threads=setup.threads)
    return model, setup.parameters.get("language")


@stage(setup=load)
def transcribe(item, state):
    """The words of one recording. Without sampling, and without the words before: each item is on its own."""
    model, language = state
    segments, _ = model.transcribe(
        item["audio"], language=language, beam_size=5, temperature=0.0,
        condition_on_previous_text=False, without_timestamps=True,
    )
    return {"transcript": " ".join(segment.text.strip() for segment in segments)}
