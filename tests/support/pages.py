"""Pages that Debian's Chromium opens from a server of this process, and what they send back."""

import json
import shutil
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import pytest


class _Handler(SimpleHTTPRequestHandler):
    """Serves files; a POST is the answer of a page."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | {
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
    }

    def __init__(self, *args: Any, answers: "Queue[bytes]", **rest: Any) -> None:
        self.answers = answers
        super().__init__(*args, **rest)

    def do_POST(self) -> None:
        self.answers.put(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Prints nothing."""


def answer(folder: Path, page: str, profile: Path, seconds: float = 120) -> Any:
    """Returns the JSON that a page of a folder sends by POST.

    Args:
        folder: what the server serves.
        page: path of the page in it.
        profile: new folder for Chromium.
        seconds: how long to wait.
    """
    if not shutil.which("chromium"):
        pytest.fail("chromium: must be installed, but is not. apt-get install chromium", False)
    answers: Queue[bytes] = Queue()
    handler = partial(_Handler, directory=str(folder), answers=answers)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu"]
        command += [f"--user-data-dir={profile}", "--enable-logging=stderr"]
        url = f"http://127.0.0.1:{server.server_port}/{page}"
        with subprocess.Popen([*command, url], stderr=subprocess.PIPE, text=True) as process:
            try:
                return json.loads(answers.get(timeout=seconds))
            except Empty:
                process.terminate()
                pytest.fail(f"{page}: sent nothing.\n{process.communicate()[1][-3000:]}", False)
            finally:
                process.terminate()
                server.shutdown()
