#!/bin/sh
# Pillow 13 gives tall images other pixels than Pillow 12 when it reduces them.
#
# resize() averages rows and columns one after the other, and rounds to 8 bits in between. One would
# expect a data set prepared again with the same call to have the same bytes, as it did from one
# release to the next before. Pillow 13.0.0 averages columns first if the height shrinks by more than
# twice as many pixels as the width, to save time, and some values change by 1. A photo
# of 9 : 16 keeps its bytes, a screenshot of a phone (9 : 20) does not.
#
# Pillow 12.3.0 and 13.0.0, numpy 2.4.3, Python 3.11; output:
#   1080 x 1920 to 96 x 96: 0 of 27648 values differ, by at most 0
#   1080 x 2400 to 96 x 96: 2002 of 27648 values differ, by at most 1
# Exit status 1 if both releases agree on both images, or differ in more than rounding.
# For odt: the page in examples/browser averages rows first, as all releases before did, and
# tests/project/test_browser_page.py compares images that both treat alike.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/reduce.py" <<'PYTHON'
import sys

import numpy as np
import PIL
from PIL import Image

print(f"pillow {PIL.__version__}, numpy {np.__version__}")
for height in (1920, 2400):
    noise = np.random.default_rng(1).integers(0, 256, (height, 1080, 3), np.uint8)
    small = Image.fromarray(noise).resize((96, 96), Image.Resampling.BILINEAR)
    np.save(f"{sys.argv[1]}-{height}.npy", np.asarray(small))
PYTHON
for version in 12.3.0 13.0.0; do
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/pip" install --quiet "pillow==$version" numpy==2.4.3
    "$folder/$version/bin/python" "$folder/reduce.py" "$folder/$version"
done
"$folder/13.0.0/bin/python" - "$folder" <<'PYTHON'
import sys

import numpy as np

most = {}
for height in (1920, 2400):
    old, new = (
        np.load(f"{sys.argv[1]}/{version}-{height}.npy").astype(int)
        for version in ("12.3.0", "13.0.0")
    )
    count, most[height] = (old != new).sum(), abs(old - new).max()
    what = f"{count} of {old.size} values differ, by at most {most[height]}"
    print(f"1080 x {height} to 96 x 96: {what}")
if most != {1920: 0, 2400: 1}:
    print("changed: the releases agree, or differ in other images")
    sys.exit(1)
PYTHON
