"""Prints the losses of the trajectories recorded from onert, as this processor computes them."""

import json

from support.golden_runs import cases, run, title
from support.paths import GOLDEN

if __name__ == "__main__":
    print(json.dumps({title(item): run(*item).losses for item in cases(GOLDEN)}))
