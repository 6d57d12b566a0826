"""LoRA of a converted language model by odt, for tests/accept/test_accept_language_training.py.

    python train_language.py MODEL.circle ADAPTERS DATA STEPS [BUDGET]

Prints what peft_language.py prints for the same data, and seconds until the first step.
"""

import json
import os
import resource
import sys
import time

import numpy as np

import odt

LEARNING_RATE = 2e-4


def main(path: str, adapters: str, data: str, steps: str, budget: str = "") -> None:
    arrays = dict(np.load(data))
    start = time.perf_counter()
    model = odt.load_model(path, adapters)
    with odt.Trainer(
        model,
        loss="sparse_categorical_crossentropy",
        optimizer=odt.AdamW(LEARNING_RATE),
        batch_size=1,
        workers=int(os.environ.get("THREADS", "2")),
        memory_budget=budget or None,
    ) as trainer:
        planned = time.perf_counter() - start

        def held_out() -> float:
            if not len(arrays["held_x"]):
                return float("nan")
            return float(trainer.evaluate(arrays["held_x"], arrays["held_y"])["loss"])

        before, losses, seconds = held_out(), [], []
        for i in range(int(steps)):
            start = time.perf_counter()
            k = i % len(arrays["x"])
            logs = trainer.train_on_batch(arrays["x"][k : k + 1], arrays["y"][k : k + 1])
            losses.append(float(logs["loss"]))
            seconds.append(time.perf_counter() - start)
        after = held_out()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    result = {"losses": losses, "held_out": [before, after], "seconds": seconds, "peak": peak}
    print(json.dumps(result | {"planned": planned}))


if __name__ == "__main__":
    main(*sys.argv[1:])
