#!/bin/sh
# WAV files whose header says 0 bytes of samples are read as empty sounds, without a warning.
#
# A program that writes WAV to a pipe, or is killed, cannot go back and fill in the sizes. Where it
# leaves 0xFFFFFFFF or 0x7FFFFFFF, scipy and libsndfile read to the end of the file. Where it leaves 0,
# both return no samples and warn of nothing, although all samples follow: a data set that is read with
# them has empty clips. Python's wave module returns nothing for 0 as well, and says of 0xFFFFFFFF that
# the "fmt chunk and/or data chunk" is missing, which is there.
#
# scipy 1.17.1, soundfile 0.14.0 (libsndfile 1.2.2), Python 3.11; output:
#   size 0x00000c80: scipy 1600, soundfile 1600, wave 1600
#   size 0x00000000: scipy 0, soundfile 0, wave 0
#   size 0x7fffffff: scipy 1600 and a warning, soundfile 1600, wave 1600
#   size 0xffffffff: scipy 1600, soundfile 1600, wave Error
# Exit status 1 if scipy or soundfile no longer return 0 samples for a size of 0.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6 scipy==1.17.1 soundfile==0.14.0
"$folder/venv/bin/python" - <<'PYTHON'
import io
import struct
import sys
import warnings
import wave

import numpy as np
import soundfile
from scipy.io import wavfile

pcm = np.arange(1600, dtype="<i2").tobytes()
form = struct.pack("<HHIIHH", 1, 1, 16000, 32000, 2, 16)
found = {}
for size in (len(pcm), 0, 0x7FFFFFFF, 0xFFFFFFFF):
    body = b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", size) + pcm
    data = b"RIFF" + struct.pack("<I", size + 36 & 0xFFFFFFFF) + body
    readers = {
        "scipy": lambda: len(wavfile.read(io.BytesIO(data))[1]),
        "soundfile": lambda: len(soundfile.read(io.BytesIO(data))[0]),
        "wave": lambda: len(wave.open(io.BytesIO(data)).readframes(10**6)) // 2,
    }
    for name, read in readers.items():
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                count = read()
                found[name, size] = f"{count}{' and a warning' if said else ''}"
            except Exception as e:
                found[name, size] = type(e).__name__
    shown = ", ".join(f"{name} {found[name, size]}" for name in readers)
    print(f"size {size:#010x}: {shown}")
sys.exit((found["scipy", 0], found["soundfile", 0]) != ("0", "0"))
PYTHON
