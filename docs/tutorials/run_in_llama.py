"""Continues a text in llama.cpp, without and with adapters.

The next token is always the most likely one, so each run prints the same. Needs llama.cpp:
pip install xllamacpp.

Usage: python docs/tutorials/run_in_llama.py MODEL.gguf ADAPTERS.gguf TEXT [TOKENS]
"""

import sys

import xllamacpp


def continued(model: str, text: str, tokens: int, adapters: str | None = None) -> str:
    """The tokens that follow a text."""
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_ctx, params.n_parallel, params.warmup = 512, 1, False
    if adapters is not None:
        info = xllamacpp.CommonAdapterLoraInfo()
        info.path, info.scale = adapters, 1.0
        params.lora_adapters = [info]
    server = xllamacpp.Server(params)
    answer = server.handle_completions({"prompt": text, "max_tokens": tokens, "temperature": 0.0})
    return str(answer["choices"][0]["text"])


def main(model: str, adapters: str, text: str, tokens: str = "40") -> None:
    """Prints both texts."""
    print(f"without: {text}{continued(model, text, int(tokens))}")
    print(f"with:    {text}{continued(model, text, int(tokens), adapters)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
