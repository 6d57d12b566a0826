"""Run folders from strangers: markup in each name and text, with a script that leaves a mark."""

import json
import shutil
from pathlib import Path

EVIL = "\"'><script>document.title='marker'</script>"
EVIL += "<img src=x onerror=document.title='marker'>\ud800\x1b[31m"


def hostile(run: Path, to: Path) -> Path:
    """A copy of a run folder with markup in each name and text that its files can hold."""
    shutil.copytree(run, to)
    record = json.loads((to / "run.json").read_text())
    for name in ("odt", "numpy", "python", "kernels", "platform", "state"):
        record[name] = EVIL
    record["files"] = {
        **{name: {**f, "path": EVIL, "sha256": EVIL} for name, f in record["files"].items()},
        EVIL: {"path": EVIL, "bytes": 1, "sha256": EVIL},
    }
    record["starts"] = [{"time": EVIL, "epoch": EVIL}, {"time": [EVIL], "epoch": {EVIL: EVIL}}]
    (to / "run.json").write_text(json.dumps(record))
    memory = json.loads((to / "memory.json").read_text())
    memory["arenas"] |= {EVIL: [1000] * len(memory["arenas"]["activations"])}
    (to / "memory.json").write_text(json.dumps(memory))
    lines = (to / "log.jsonl").read_text().splitlines()
    rows = [{**json.loads(line), EVIL: 1.0, f"val_{EVIL}": 2.0} for line in lines]
    (to / "log.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    written = EVIL.encode(errors="replace").decode()
    (to / "warnings.txt").write_text(f"{written}\n")
    comment = written.replace("\x1b", "")
    with (to / "recipe.toml").open("a") as file:
        file.write(f"# {comment}\n")
    return to
