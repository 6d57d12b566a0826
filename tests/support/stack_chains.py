"""The deepest stack of C functions, from the call graphs that gcc writes (-fcallgraph-info=su)."""

import re
from pathlib import Path

NODE = re.compile(r'node: \{ title: "([^"]*)" label: "([^"]*)"')
EDGE = re.compile(r'edge: \{ sourcename: "([^"]*)" targetname: "([^"]*)"')
INDIRECT, PART = "__indirect_call", "_part"


def deepest(graph: Path) -> dict[str, int]:
    """Returns the most bytes of stack that each exported function of a C file takes.

    A call by a pointer may call any function that is called by no name. Functions of a part call
    no other ones of a part by pointers.
    """
    text = graph.read_text(encoding="utf-8")
    frames = {}
    for title, label in NODE.findall(text):
        size = re.search(r"(\d+) bytes \(", label)
        frames[title] = int(size[1]) if size else 0
    calls: dict[str, set[str]] = {}
    for source, target in EDGE.findall(text):
        calls.setdefault(source, set()).add(target)
    named = {target for targets in calls.values() for target in targets}
    pointed = {title for title in frames if ":" in title and title not in named}

    def depth(name: str, path: frozenset[str]) -> int:
        if name in path:
            return 0
        path |= {name}
        targets = calls.get(name, set())
        if INDIRECT in targets:
            in_part = any(PART in n for n in path)
            targets = targets | {n for n in pointed if not (in_part and PART in n)}
        return frames.get(name, 0) + max((depth(n, path) for n in targets), default=0)

    exported = (title for title in frames if title.endswith("_base") and ":" not in title)
    return {title: depth(title, frozenset()) for title in exported}
