"""LoRA of a GGUF language model by PEFT, for tests/accept/test_accept_language_training.py.

Runs in an environment with torch, transformers, gguf and peft. DATA is an .npz file with token ids
`x` and `held_x` (N, T), and next tokens `y` and `held_y` (N, T).

    python peft_language.py MODEL.gguf ADAPTERS DATA STEPS [bfloat16]

ADAPTERS is a folder with PEFT's form of adapters. Prints JSON: the loss of each step of AdamW, the
loss of the held-out samples before and after, seconds of each step, peak memory of the process.
"""

import json
import os
import resource
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import peft
import torch
import transformers

LEARNING_RATE = 2e-4


def main(model_path: str, adapters: str, data: str, steps: str, precision: str = "float32") -> None:
    path = Path(model_path)
    torch.set_num_threads(int(os.environ.get("THREADS", "2")))
    model = transformers.AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32
    )
    model = peft.PeftModel.from_pretrained(model, adapters, is_trainable=True)
    weights = [w for w in model.parameters() if w.requires_grad]
    optimizer = torch.optim.AdamW(weights, LEARNING_RATE, weight_decay=0.01)
    arrays = {name: torch.from_numpy(a.astype(np.int64)) for name, a in np.load(data).items()}

    def loss_of(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        autocast = torch.autocast("cpu", torch.bfloat16)
        with autocast if precision == "bfloat16" else nullcontext():
            logits = model(x[None], use_cache=False).logits[0]
        return torch.nn.functional.cross_entropy(logits.float(), y, ignore_index=-1)

    def held_out() -> float:
        """Mean over all tokens that count, as odt's: windows have different numbers of them."""
        model.eval()
        with torch.no_grad():
            losses = [
                loss_of(x, y).item()
                for x, y in zip(arrays["held_x"], arrays["held_y"], strict=True)
            ]
        model.train()
        counts = (arrays["held_y"] >= 0).sum(dim=-1).numpy()
        return float(np.average(losses, weights=counts)) if losses else float("nan")

    before, losses, seconds = held_out(), [], []
    for i in range(int(steps)):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = loss_of(arrays["x"][i % len(arrays["x"])], arrays["y"][i % len(arrays["x"])])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    result = {"losses": losses, "held_out": [before, held_out()], "seconds": seconds, "peak": peak}
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
