"""The heads of a detector in PyTorch, on features that are ready; it needs torch.

    python torch_heads.py FILE

FILE has the features of each level of the photos for training (`train0` …, N × H × W × C) and
tests (`test0` …); kernels and biases of the heads of boxes and classes (`kernel0-0`, `bias0-0` …);
for each training photo the class of each anchor (`classes`, −1 without one) and the codes of its
box (`codes`); the number of `columns` of the scores, and the mean number of `positives`.

The losses are those of odt.tasks.anchors for SSD. Optimizer, batches and moving average are odt's
defaults. Each line of the standard input is the order for an epoch; it is answered with its
processor time in seconds. At the end of the input, FILE.out.npz gets codes and scores of the test
photos by the averages, and the last line of the output is the peak memory in MB.
"""

import resource
import sys
import time

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, conv2d, huber_loss

BATCH, RATE, AVERAGE = 16, 0.001, 0.95

torch.set_num_threads(1)
torch.manual_seed(0)
path = sys.argv[1]
with np.load(path) as file:
    data = {name: torch.from_numpy(file[name]) for name in file.files}
levels = range(sum(name.startswith("test") for name in data))
columns, positives = int(data["columns"]), float(data["positives"])
heads = [(k, j) for k in levels for j in range(2)]  # of boxes, of classes
parameters = [data[f"{kind}{k}-{j}"] for k, j in heads for kind in ("kernel", "bias")]
for p in parameters:
    p.requires_grad_(True)
averages = [p.detach().clone() for p in parameters]
adam = torch.optim.Adam(parameters, RATE, eps=1e-7, fused=True)


def outputs(
    part: str, samples: torch.Tensor, values: list[torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns codes (N, anchors, 4) and logits (N, anchors, columns)."""
    rows: tuple[list[torch.Tensor], list[torch.Tensor]] = ([], [])
    for n, (k, j) in enumerate(heads):
        x = data[f"{part}{k}"][samples].permute(0, 3, 1, 2)  # channels last in memory
        y = conv2d(x, values[2 * n], values[2 * n + 1])
        rows[j].append(y.permute(0, 2, 3, 1).reshape(len(y), -1, (4, columns)[j]))
    return torch.cat(rows[0], 1), torch.cat(rows[1], 1)


def loss_of(samples: torch.Tensor) -> torch.Tensor:
    """Returns the mean loss of some photos."""
    codes, logits = outputs("train", samples, parameters)
    classes = data["classes"][samples]
    at = classes >= 0
    boxes = huber_loss(codes[at], data["codes"][samples][at], reduction="sum") / 4
    targets = torch.zeros_like(logits)
    targets[(*torch.nonzero(at, as_tuple=True), classes[at].long())] = 1
    entropy = binary_cross_entropy_with_logits(logits, targets, reduction="none")
    p = torch.sigmoid(logits)
    miss = p + targets - 2 * p * targets
    focal = (0.25 + 0.5 * targets) * miss * miss * entropy
    return (boxes + focal.sum()) / (positives * len(samples))


def epoch() -> None:
    for samples in torch.randperm(len(data["classes"])).split(BATCH):
        adam.zero_grad(set_to_none=True)
        loss_of(samples).backward()
        adam.step()
        with torch.no_grad():
            torch._foreach_lerp_(averages, parameters, 1 - AVERAGE)


print("ready", flush=True)
for _ in sys.stdin:
    start = time.process_time()
    epoch()
    print(time.process_time() - start, flush=True)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
with torch.inference_mode():
    codes, logits = outputs("test", torch.arange(len(data["test0"])), averages)
np.savez(path + ".out.npz", codes=codes.numpy(), scores=torch.sigmoid(logits).numpy())
print(peak)
