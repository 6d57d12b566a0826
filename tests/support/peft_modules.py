"""Adapters of PEFT on a network of torch, for tests/accept/test_accept_adapters.py.

Runs in an environment with torch, peft and safetensors. The folder of the first argument holds
`network.npz`, with samples `x` and the weights of the layers in NAMES.

    python peft_modules.py FOLDER open NAME     # outputs with the adapters in FOLDER/NAME: NAME.npy
    python peft_modules.py FOLDER write NAME    # the same after writing random adapters there
"""

import sys
from pathlib import Path

import numpy as np
import peft
import safetensors.torch
import torch

NAMES = ("blocks.0.up", "blocks.0.down", "head")


class Block(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(width, inner), torch.nn.Linear(inner, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x)))


class Network(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, width: int, inner: int, outputs: int) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(width, inner)])
        self.head = torch.nn.Linear(width, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks[0](x))


def network_of(arrays: dict[str, np.ndarray]) -> Network:
    inner, width = arrays["blocks.0.up.weight"].shape
    network = Network(width, inner, len(arrays["head.weight"]))
    network.load_state_dict({k: torch.from_numpy(v) for k, v in arrays.items()})
    return network


def write_adapters(network: Network, folder: Path) -> None:
    """Saves random adapters; a folder `rslora` or `bfloat16` gets those of this variant."""
    variant = folder.name
    config = peft.LoraConfig(
        r=3, lora_alpha=5, target_modules=list(NAMES), use_rslora=variant == "rslora"
    )
    adapted = peft.get_peft_model(network, config)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, values in adapted.named_parameters():
            if "lora_B" in name:
                values.normal_(generator=generator)
    if variant == "bfloat16":
        adapted.bfloat16()
    adapted.save_pretrained(folder)


def check_arrays(adapted: peft.PeftModel, folder: Path) -> None:
    """Checks that PEFT has taken all arrays, each unchanged, where the file has them."""
    stored = safetensors.torch.load_file(folder / "adapter_model.safetensors")
    state = peft.get_peft_model_state_dict(adapted)
    assert stored.keys() == state.keys(), (list(stored), list(state))
    assert all(torch.equal(values.float(), state[name]) for name, values in stored.items())


def main() -> None:
    folder, action, name = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    arrays = dict(np.load(folder / "network.npz"))
    x = torch.from_numpy(arrays.pop("x"))
    if action == "write":
        write_adapters(network_of(arrays), folder / name)
    adapted = peft.PeftModel.from_pretrained(network_of(arrays), folder / name)
    check_arrays(adapted, folder / name)
    with torch.no_grad():
        np.save(folder / f"{name}.npy", adapted.eval()(x).numpy())


main()
