"""Modules whose ONNX files ONNX Runtime 1.19.2 cannot train, trained by PyTorch in float64.

    python torch_modules.py FOLDER

It needs torch, onnx and onnxscript. FOLDER gets NAME.onnx and NAME.npz of each module: batches,
targets, and the losses of ten steps of gradient descent on the mean squared error.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

NAMES = (
    *("lstm", "gru", "bidirectional-lstm", "bidirectional-gru", "layer-norm", "instance-norm"),
    *("reflect-pad", "prelu", "hardswish", "elu", "attention", "rms-norm"),
)
STEPS, BATCH, RATE = 10, 8, 0.1


def modules() -> dict[str, tuple[Any, tuple[int, ...], dict[str, Any]]]:
    """Returns each module, the shape of a sample, and arguments of the exporter."""
    import torch
    from torch import nn

    class Recurrent(nn.Module):  # type: ignore[misc]  # torch is not installed here
        def __init__(self, kind: Any, *, bidirectional: bool = False) -> None:
            super().__init__()
            self.layer = kind(5, 6, batch_first=True, bidirectional=bidirectional)
            self.head = nn.Linear(12 if bidirectional else 6, 3)

        def forward(self, x: Any) -> Any:
            return self.head(self.layer(x)[0][:, -1])

    class Attention(nn.Module):  # type: ignore[misc]  # torch is not installed here
        def __init__(self) -> None:
            super().__init__()
            self.joined, self.out = nn.Linear(8, 24), nn.Linear(8, 3)

        def forward(self, x: Any) -> Any:
            shape = (x.shape[0], 4, 2, 4)
            q, k, v = (a.reshape(shape).transpose(1, 2) for a in self.joined(x).chunk(3, -1))
            y = nn.functional.scaled_dot_product_attention(q, k, v)
            return self.out(y.transpose(1, 2).reshape(x.shape[0], 4, 8).mean(1))

    def images(*layers: Any) -> Any:
        return nn.Sequential(nn.Conv2d(3, 4, 3), *layers, nn.Flatten(), nn.LazyLinear(3))

    def vectors(*layers: Any) -> Any:
        return nn.Sequential(nn.Linear(6, 8), *layers, nn.Linear(8, 3))

    old = {"dynamo": False, "opset_version": 17}
    new = {"dynamo": True, "opset_version": 23}
    made = {
        "lstm": (Recurrent(nn.LSTM), (7, 5), old),
        "gru": (Recurrent(nn.GRU), (7, 5), old),
        "bidirectional-lstm": (Recurrent(nn.LSTM, bidirectional=True), (7, 5), old),
        "bidirectional-gru": (Recurrent(nn.GRU, bidirectional=True), (7, 5), old),
        "layer-norm": (vectors(nn.LayerNorm(8)), (6,), old),
        "instance-norm": (images(nn.InstanceNorm2d(4, affine=True)), (3, 6, 6), old),
        "reflect-pad": (nn.Sequential(nn.ReflectionPad2d(1), images(nn.ReLU())), (3, 6, 6), old),
        "prelu": (images(nn.PReLU(4)), (3, 6, 6), old),
        "hardswish": (vectors(nn.Hardswish()), (6,), old),
        "elu": (vectors(nn.ELU(0.7)), (6,), old),
        "attention": (Attention(), (4, 8), new),
        "rms-norm": (vectors(nn.RMSNorm(8)), (6,), new),
    }
    assert tuple(made) == NAMES
    del torch
    return made


def main() -> None:
    import torch

    folder = Path(sys.argv[1])
    torch.manual_seed(5)
    for k, (name, (module, shape, options)) in enumerate(modules().items()):
        rng = np.random.default_rng(k)
        x = rng.standard_normal((STEPS, BATCH, *shape)).astype(np.float32)
        t = rng.standard_normal((STEPS, BATCH, 3)).astype(np.float32)
        module(torch.from_numpy(x[0]))
        axes = {"x": {0: "N"}, "y": {0: "N"}} if not options["dynamo"] else None
        torch.onnx.export(
            module.eval(),
            (torch.from_numpy(x[0]),),
            str(folder / f"{name}.onnx"),
            input_names=["x"],
            output_names=["y"],
            dynamic_axes=axes,
            do_constant_folding=options["dynamo"],
            **options,
        )
        exact, losses = module.double(), []
        optimizer = torch.optim.SGD(exact.parameters(), RATE)
        for inputs, targets in zip(x, t, strict=True):
            y = exact(torch.from_numpy(inputs).double())
            loss = torch.nn.functional.mse_loss(y, torch.from_numpy(targets).double())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        np.savez(folder / f"{name}.npz", x=x, t=t, losses=losses)


if __name__ == "__main__":
    main()
