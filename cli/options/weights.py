"""Types in which weights of float models are stored, and the schemes of `odt.quantize` for them."""

WEIGHTS = {
    "int8": "int8-weights",
    "int4": "int4-weights",
    **{f"int4-block{n}": f"int4-block{n}-weights" for n in (32, 64, 128, 256)},
    "int2": "int2-weights",
    "float16": "float16",
}
