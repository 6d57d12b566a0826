"""GGUF: metadata and tensors of language models, of which llama.cpp stores models and adapters."""
