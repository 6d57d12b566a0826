"""The processor of this machine."""

import os
from pathlib import Path

# Flags of /proc/cpuinfo that decide which kernels systems use, best first.
FEATURES = {
    "amx_bf16": "AMX-BF16",
    "amx_tile": "AMX",
    "avx512_bf16": "AVX512-BF16",
    "avx512f": "AVX-512",
    "avx2": "AVX2",
    "asimd": "NEON",
}


def describe(cpuinfo: str, cores: int) -> str:
    """Returns model, cores and instruction sets from the text of /proc/cpuinfo."""
    lines = (line.partition(":") for line in cpuinfo.partition("\n\n")[0].splitlines())
    fields = {key.strip(): value.strip() for key, _, value in lines}
    name = fields.get("model name", "processor of unknown name")
    numbers = [f"{k} {fields[k]}" for k in ("cpu family", "model") if k in fields]
    flags = fields.get("flags", fields.get("Features", "")).split()
    sets = [title for flag, title in FEATURES.items() if flag in flags]
    detail = f" ({', '.join(numbers)})" if numbers else ""
    return f"{name}{detail}, {cores} cores, {', '.join(sets) or 'no known vector instructions'}"


def processor() -> str:
    return describe(Path("/proc/cpuinfo").read_text(), len(os.sched_getaffinity(0)))
