"""The cleanness of a recording: DNSMOS by speechmos (its networks are in the package), for sound at 16 kHz.

Opinions of listeners are predicted on the scale from 1 to 5: of the speech, of the background, and overall.
"""

import librosa
import numpy
from speechmos import dnsmos

from throstle import stage


@stage
def measure(item, state):
    samples, rate = librosa.load(item["audio"], sr=None)
    # Resampled sound may exceed full scale by a little, which the package refuses.
    found = dnsmos.run(numpy.clip(samples, -1.0, 1.0), int(rate))
    return {
        "mos": float(found["ovrl_mos"]),
        "mos_speech": float(found["sig_mos"]),
        "mos_background": float(found["bak_mos"]),
    }
