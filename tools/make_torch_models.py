"""Converts torch modules with tico and records how torch trains them, for tests/golden_torch.

pip install -e '.[torch]', then: python tools/make_torch_models.py tests/golden_torch

For each module, the folder gets NAME.circle, NAME.npz (data, losses, first gradients) and a row in
cases.json. torch trains the parameters that the file has: there, BatchNorm with frozen statistics
is a multiplication and an addition, so it is replaced by both before training.
"""
# mypy: disallow-subclassing-any=False

import copy
import json
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import tico
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch_models import RECIPES, REFUSED, Recipe

from odt.core.formats.reader import read_model

Array = NDArray[np.float32]
BATCH, BATCHES, STEPS = 4, 5, 10  # two epochs
FORMULA = "const_tensor_"  # in the names of other constants, such as epsilons
ADAM_RATE, BETA1, BETA2, EPSILON = 0.001, 0.9, 0.999, 1e-7


class Affine(nn.Module):
    """BatchNorm with frozen statistics, as y = x · scale + shift."""

    def __init__(self, norm: Any) -> None:
        super().__init__()
        scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
        self.scale = nn.Parameter(scale.detach())
        self.shift = nn.Parameter((norm.bias - scale * norm.running_mean).detach())

    def forward(self, x: Tensor) -> Tensor:
        shape = (1, -1) + (1,) * (x.ndim - 2)
        return x * self.scale.view(shape) + self.shift.view(shape)


def as_converted(module: nn.Module, constants: Mapping[str, Array]) -> nn.Module:
    """Returns a copy of a module with the parameters of the converted file.

    BatchNorm becomes Affine, or nothing if tico fused it; weight and bias of a LayerNorm that tico
    multiplied into the next Linear are fused there.

    Args:
        module: the module.
        constants: constants of the file, by name.
    """
    twin = copy.deepcopy(module)
    for name, layer in list(twin.named_modules()):
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            affine = Affine(layer)
            in_file = any(np.array_equal(c.ravel(), affine.scale.data) for c in constants.values())
            parent, _, last = name.rpartition(".")
            setattr(twin.get_submodule(parent), last, affine if in_file else nn.Identity())
        elif isinstance(layer, nn.LayerNorm) and file_name(f"{name}.weight") not in constants:
            layer.weight = layer.bias = None
    for name, p in twin.named_parameters():
        fused = constants.get(f"{file_name(name)}_{name.rpartition('.')[2]}_fused")
        if fused is not None:
            p.data = torch.from_numpy(fused.copy())
    return twin.eval()


def file_name(parameter: str) -> str:
    """Returns tico's name of a parameter."""
    return "tico::p_" + parameter.replace(".", "_")


def float_constants(path: Path) -> dict[str, Array]:
    """Returns the parameters of a file by name: its float constants without those of formulas."""
    return {
        t.name: t.data
        for t in read_model(str(path)).graph.tensors
        if t.data is not None
        and t.spec.dtype.kind == "f"
        and FORMULA not in t.name
        and t.data.any()  # a recurrent layer's first state is no parameter
    }


def draw_state(module: nn.Module) -> None:
    """Draws statistics and parameters as after training; all values of parameters differ.

    They must be unique because `file_gradients` finds the parameters of the file by their values.
    """
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            layer.running_mean.normal_(0, 0.2)
            layer.running_var.uniform_(0.5, 1.5)
    for p in module.parameters():
        if p.ndim == 1 and bool((p == p[0]).all()):  # gamma or beta
            p.data += 0.1 * torch.randn_like(p)
        elif not bool(p.any()):
            p.data.normal_(0, 0.2)
    seen: set[float] = set()
    for p in module.parameters():
        for i, drawn in enumerate(p.data.reshape(-1).tolist()):
            value = drawn
            while value in seen:
                value = float(np.nextafter(np.float32(value), np.float32(2)))
            seen.add(value)
            p.data.view(-1)[i] = value


def draw_inputs(recipe: Recipe, samples: int) -> list[Tensor]:
    """Random tokens or numbers; few digits, so that the files are small."""
    if recipe.vocabulary:
        shape = (samples, *recipe.inputs[0])
        return [torch.randint(0, recipe.vocabulary, shape, dtype=torch.int32)]
    return [torch.round(8 * torch.randn(samples, *s)) / 8 for s in recipe.inputs]


def draw_targets(recipe: Recipe, outputs: Tensor) -> Tensor:
    """One class of each sample, one-hot; or numbers."""
    if recipe.loss == "cce":
        drawn = torch.randint(0, outputs.shape[1], (len(outputs),))
        return nn.functional.one_hot(drawn, outputs.shape[1]).float()
    return torch.round(8 * torch.rand(outputs.shape)) / 8


def loss_of(recipe: Recipe, outputs: Tensor, targets: Tensor) -> Tensor:
    """Returns the mean loss of a batch."""
    if recipe.loss == "cce":
        return nn.functional.cross_entropy(outputs, targets)
    return ((outputs - targets) ** 2).mean()


def sgd(rate: float) -> Callable[[int, Tensor], None]:
    """Returns the update of a parameter in a step of gradient descent."""

    def update(step: int, p: Tensor) -> None:
        if p.grad is not None:
            p.data -= rate * p.grad

    return update


def adam(slots: dict[Tensor, tuple[Tensor, Tensor]]) -> Callable[[int, Tensor], None]:
    """Returns the update of Adam in Keras' form: epsilon is added before the bias correction."""

    def update(step: int, p: Tensor) -> None:
        if p.grad is None:
            return
        m, v = slots.setdefault(p, (torch.zeros_like(p.data), torch.zeros_like(p.data)))
        m += (1 - BETA1) * (p.grad - m)
        v += (1 - BETA2) * (p.grad**2 - v)
        rate = ADAM_RATE * (1 - BETA2**step) ** 0.5 / (1 - BETA1**step)
        p.data -= rate * m / (v.sqrt() + EPSILON)

    return update


def train(
    module: nn.Module,
    recipe: Recipe,
    inputs: Sequence[Tensor],
    targets: Tensor,
    update: Callable[[int, Tensor], None],
) -> tuple[list[float], list[Array]]:
    """Trains STEPS steps; returns the losses before each, and the gradients of the first step."""
    losses: list[float] = []
    first: list[Array] = []
    for step in range(STEPS):
        rows = slice(step % BATCHES * BATCH, (step % BATCHES + 1) * BATCH)
        module.zero_grad()
        loss = loss_of(recipe, module(*(x[rows] for x in inputs)), targets[rows])
        loss.backward()
        losses.append(loss.item())
        if not step:
            first = [
                (torch.zeros_like(p) if p.grad is None else p.grad).detach().numpy().copy()
                for p in module.parameters()
            ]
        for p in module.parameters():
            update(step + 1, p)
    return losses, first


def file_gradients(
    constants: Mapping[str, Array], parameters: Sequence[Array], gradients: Sequence[Array]
) -> dict[str, Array]:
    """Arranges PyTorch's gradients like the parameters in the file: transposed, split or joined.

    Raises:
        ValueError: if a parameter of the file is not in PyTorch, or the reverse.
    """
    values = np.concatenate([p.ravel() for p in parameters])
    flat_gradients = np.concatenate([g.ravel() for g in gradients])
    order = np.argsort(values)
    by_name: dict[str, Array] = {}
    positions = []
    for name, data in constants.items():
        position = order[np.searchsorted(values[order], data.ravel()).clip(0, len(order) - 1)]
        if not np.array_equal(values[position], data.ravel()):
            raise ValueError(f"{name}: must be a parameter of the module")
        by_name[name] = flat_gradients[position].reshape(data.shape)
        positions.append(position)
    times = np.bincount(np.concatenate(positions), minlength=len(values))
    if not (times == 1).all():
        raise ValueError(f"parameters must be in the file once, but got {np.unique(times)} times")
    return by_name


def make(name: str, recipe: Recipe, folder: Path) -> dict[str, Any]:
    """Writes the files of a case; returns its row."""
    torch.manual_seed(1 + sorted(RECIPES).index(name))
    module = recipe.build().eval()
    draw_state(module)
    inputs = draw_inputs(recipe, BATCH * BATCHES)
    path = folder / f"{name}.circle"
    tico.convert(module, tuple(x[:1] for x in inputs)).save(str(path))
    constants = float_constants(path)
    twin = as_converted(module, constants)
    outputs = module(*inputs).detach()
    torch.testing.assert_close(twin(*inputs).detach(), outputs, rtol=1e-4, atol=1e-5)
    targets = draw_targets(recipe, outputs)
    parameters = [p.detach().numpy().copy() for p in twin.parameters()]
    sgd_losses, first = train(copy.deepcopy(twin), recipe, inputs, targets, sgd(recipe.rate))
    adam_losses, _ = train(copy.deepcopy(twin), recipe, inputs, targets, adam({}))
    gradients = file_gradients(constants, parameters, first)
    arrays = {f"input{i}": x.numpy() for i, x in enumerate(inputs)}
    arrays |= {f"gradient {k}": g for k, g in gradients.items()}
    np.savez_compressed(folder / f"{name}.npz", targets=targets.numpy(), **arrays)
    return {
        "name": name,
        "loss": recipe.loss,
        "batch_size": BATCH,
        "sgd": {"learning_rate": recipe.rate, "losses": sgd_losses},
        "adam": {"learning_rate": ADAM_RATE, "losses": adam_losses},
    }


def refusal(recipe: Recipe) -> str:
    """Returns tico's message if it refuses a module; empty if it converts it."""
    try:
        tico.convert(recipe.build().eval(), tuple(x[:1] for x in draw_inputs(recipe, 1)))
    except Exception as e:  # tico raises exceptions of many types
        return f"{type(e).__name__}: {str(e).splitlines()[0]}"
    return ""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--refused", is_flag=True, help="Print the messages of tico for modules that it refuses."
)
def main(folder: Path, refused: bool) -> None:
    """Writes all cases into FOLDER."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    torch.set_num_threads(1)
    if refused:
        for name, recipe in REFUSED.items():
            click.echo(f"{name}: {refusal(recipe) or 'converts'}")
        return
    torch.backends.mha.set_fastpath_enabled(False)  # tico does not know its operator
    folder.mkdir(parents=True, exist_ok=True)
    rows = [make(name, recipe, folder) for name, recipe in RECIPES.items()]
    versions = {"torch": torch.__version__, "tico": tico.__version__}
    (folder / "cases.json").write_text(json.dumps({**versions, "cases": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
