"""Pages that Debian's Chromium opens from a server of this process, and what they send back."""

import json
import subprocess
import tempfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, Queue
from typing import Any


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


def answer(folder: Path, page: str, seconds: float = 120) -> Any:
    """Returns the JSON that a page of a folder sends by POST; the browser has no cache.

    Args:
        folder: what the server serves.
        page: path of the page in it.
        seconds: how long to wait.

    Raises:
        RuntimeError: if the page sends nothing.
    """
    answers: Queue[bytes] = Queue()
    handler = partial(_Handler, directory=str(folder), answers=answers)
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        ThreadingHTTPServer(("127.0.0.1", 0), handler) as server,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu"]
        command += [f"--user-data-dir={profile}", "--enable-logging=stderr"]
        url = f"http://127.0.0.1:{server.server_port}/{page}"
        with subprocess.Popen([*command, url], stderr=subprocess.PIPE, text=True) as process:
            try:
                return json.loads(answers.get(timeout=seconds))
            except Empty:
                process.terminate()
                log = process.communicate()[1][-3000:]
                raise RuntimeError(f"{page}: sent nothing.\n{log}") from None
            finally:
                process.terminate()
                server.shutdown()
