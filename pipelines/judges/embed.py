"""The direction of a voice: 256 numbers by Resemblyzer (its weights are in the package), on the CPU."""

import io

import numpy
import torch
from resemblyzer import VoiceEncoder, preprocess_wav

from throstle import Reject, stage


def load(setup):
    torch.set_num_threads(setup.threads)
    return VoiceEncoder("cpu", verbose=False)


@stage(setup=load)
def embed(item, encoder):
    """The embedding of the parts with speech; recordings may have any rate."""
    speech = preprocess_wav(item["audio"])
    if not len(speech):
        raise Reject("no speech was found")
    array = io.BytesIO()
    numpy.save(array, encoder.embed_utterance(speech))
    return {"embedding": array.getvalue()}
