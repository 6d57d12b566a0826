"""GGUF: metadata and tensors of llama.cpp's models and adapters.

Independent of lowering and of what models compute.
"""
