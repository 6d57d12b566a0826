"""Writes everything that is generated from the code, as `make pages` does.

python tools/write_pages.py
"""

import subprocess
import sys
from pathlib import Path

# In this order: lists are in the order of the index, and docs/api.md describes the classes.
TOOLS = (
    "write_row_index",
    "write_optimizer_classes",
    "write_loss_classes",
    "write_step_keywords",
    "write_stubs",
    "write_tables",
    "list_operators",
    "print_structures",
    "write_api_page",
)

if __name__ == "__main__":
    for tool in TOOLS:
        subprocess.run([sys.executable, Path(__file__).with_name(f"{tool}.py")], check=True)
