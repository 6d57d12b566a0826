"""What others make of a language model: llama.cpp, gguf and transformers, in an own environment.

python language_judge.py tokens MODEL.gguf TEXTS.json OUT.json: [tokens, with control tokens]
python language_judge.py probabilities MODEL.gguf PROMPTS.json OUT.json: {token: log p} by prompt
python language_judge.py floats MODEL.gguf OUT.gguf: the same model in float32
python language_judge.py logits MODEL.gguf TOKENS.npy OUT.npy
python language_judge.py sizes OUT.json: {type: [values, bytes of a block]}
"""

import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

os.environ["HF_HUB_OFFLINE"] = "1"
LIKELY = 10  # tokens whose probability is asked for


def server(model: str) -> Any:
    """Starts llama.cpp's server; returns a function that asks it."""
    import xllamacpp

    options = xllamacpp.CommonParams()
    options.model.path = model
    options.n_ctx, options.n_parallel, options.cpuparams.n_threads = 256, 1, 1
    options.warmup = False
    options.hostnames = ["127.0.0.1"]
    running = xllamacpp.Server(options)

    def ask(path: str, **fields: Any) -> Any:
        data = json.dumps(fields).encode()
        request = Request(
            f"{running.listening_address}{path}", data, {"Content-Type": "application/json"}
        )
        with urlopen(request) as answer:
            return json.load(answer)

    return ask


def tokens(model: str, source: str, target: str) -> None:
    ask = server(model)
    texts = json.loads(Path(source).read_text(encoding="utf-8"))
    both = [
        [
            ask("/tokenize", content=text, add_special=False, parse_special=special)["tokens"]
            for special in (False, True)
        ]
        for text in texts
    ]
    Path(target).write_text(json.dumps(both))


def probabilities(model: str, source: str, target: str) -> None:
    ask = server(model)
    results = []
    for prompt in json.loads(Path(source).read_text(encoding="utf-8")):
        answer = ask("/completion", prompt=prompt, n_predict=1, n_probs=LIKELY, temperature=0)
        first = answer["completion_probabilities"][0]["top_logprobs"]
        results.append({entry["id"]: entry["logprob"] for entry in first})
    Path(target).write_text(json.dumps(results))


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
    import numpy as np
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)
    folder, name = os.path.split(model)
    network = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
    with torch.no_grad():
        np.save(target, network(torch.tensor(np.load(source)).long()).logits.numpy())


def sizes(target: str) -> None:
    import gguf

    known = {kind.name: size for kind, size in gguf.GGML_QUANT_SIZES.items()}
    Path(target).write_text(json.dumps(known))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
    os._exit(0)  # the server of llama.cpp would be asked to end
