"""A headless Chromium, driven by its DevTools protocol over two pipes."""

import base64
import json
import os
import queue
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
MISSING = "chromium: must be installed, but is not. apt-get install chromium"
OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
    # A camera and a microphone that need no permission.
    *("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"),
)
TIMEOUT = 120.0  # seconds


class Chromium:
    """A browser with one page; requests of the page and its workers are recorded.

    Attributes:
        requests: URLs.
        messages: errors and warnings of the console, and exceptions.

    The tasks of its threads are traced from the beginning, see `longest_task`.
    """

    def __init__(self, profile: Path) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        # Chromium reads descriptor 3 and writes 4; dash knows no numbers of two digits.
        shell = "bash", "-c", f'exec "$@" 3<&{to_read} 4>&{to_write}', "bash"
        command = PROGRAM, *OPTIONS, f"--user-data-dir={profile}", "about:blank"
        self._process = subprocess.Popen(
            [*shell, *command],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self.requests: list[str] = []
        self.messages: list[str] = []
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self._trace: list[dict[str, Any]] = []
        self._is_traced = threading.Event()
        self._number = 0
        self._lock = threading.Lock()
        self._session = ""
        threading.Thread(target=self._receive, daemon=True).start()
        categories = ["toplevel", "devtools.timeline"]  # the second one has CommitLoad
        self.send("Tracing.start", traceConfig={"includedCategories": categories})
        pages = self.send("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in pages if t["type"] == "page")
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        self._watch(self._session)
        for method in ("Page.enable", "DOM.enable"):
            self.send(method)

    def close(self) -> None:
        """Ends the browser."""
        os.close(self._write)  # which ends it
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Calls a method of the protocol for the page, and returns its result."""
        number = self._post(self._session, method, parameters)
        end = time.monotonic() + TIMEOUT
        while True:
            answer = self._answers.get(timeout=end - time.monotonic())
            if answer["id"] == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return dict(answer["result"])

    def open(self, url: str) -> None:
        """Opens a page and waits until it is loaded."""
        self.send("Page.navigate", url=url)
        self.wait_for("document.readyState == 'complete'")

    def run(self, expression: str) -> Any:
        """Evaluates JavaScript in the page, and waits for a promise."""
        result = self.send(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Waits until an expression is true."""
        end = time.monotonic() + TIMEOUT
        while not self.run(f"Boolean({expression})"):
            assert time.monotonic() < end, f"{expression} did not become true"
            time.sleep(0.05)

    def choose_files(self, selector: str, files: Sequence[Path]) -> None:
        """Chooses files in an input, as a user does."""
        root = self.send("DOM.getDocument")["root"]["nodeId"]
        node = self.send("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.send("DOM.setFileInputFiles", files=[str(f) for f in files], nodeId=node)

    def press(self, key: str) -> None:
        """Presses a key."""
        codes = {"Tab": 9, "Enter": 13, " ": 32, "ArrowDown": 40}
        text = {"Enter": "\r", " ": " "}.get(key, "")
        event = {"key": key, "windowsVirtualKeyCode": codes[key], "text": text}
        self.send("Input.dispatchKeyEvent", type="keyDown", **event)
        self.send("Input.dispatchKeyEvent", type="keyUp", **event)

    def longest_task(self) -> float:
        """Ends the trace; returns the longest task of a page's main thread, in milliseconds.

        It is measured in processor time, so that other programs do not change it. Pages that
        Chromium shows itself, such as chrome://omnibox-popup, do not count.
        """
        self._post("", "Tracing.end", {})
        assert self._is_traced.wait(TIMEOUT)
        loads = [e for e in self._trace if e["name"] == "CommitLoad"]
        pages = {e["pid"] for e in loads if e["args"]["data"]["url"].startswith("http")}
        threads = {
            (e["pid"], e["tid"])
            for e in self._trace
            if e["name"] == "thread_name"
            and e["args"]["name"] == "CrRendererMain"
            and e["pid"] in pages
        }
        tasks = [e["tdur"] for e in self._trace if (e["pid"], e["tid"]) in threads and "tdur" in e]
        return float(max(tasks)) / 1000

    def resize(self, width: int, height: int, *, dark: bool = False) -> None:
        """Gives the window a size, and chooses light or dark colors."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.send("Emulation.setEmulatedMedia", features=scheme)
        size = {"width": width, "height": height, "deviceScaleFactor": 1}
        self.send("Emulation.setDeviceMetricsOverride", **size, mobile=False)

    def screenshot(self) -> bytes:
        """Returns a picture of the whole page, as PNG."""
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(shot["data"])

    def _watch(self, session: str) -> None:
        """Records what a page or a worker requests and writes, and what its workers do."""
        attach = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}
        for method in ("Network.enable", "Runtime.enable", "Log.enable"):
            self._post(session, method, {})
        self._post(session, "Target.setAutoAttach", attach)
        self._post(session, "Runtime.runIfWaitingForDebugger", {})

    def _post(self, session: str, method: str, parameters: Mapping[str, Any]) -> int:
        with self._lock:
            self._number += 1
            number = self._number
            message = {"id": number, "method": method, "params": parameters}
            if session:
                message["sessionId"] = session
            data = json.dumps(message).encode() + b"\0"
            while data:
                data = data[os.write(self._write, data) :]
        return number

    def _receive(self) -> None:
        with open(self._read, "rb") as file:
            buffer = b""
            while part := file.read1(1 << 20):
                *lines, buffer = (buffer + part).split(b"\0")
                for line in lines:
                    message = json.loads(line)
                    if "id" in message:
                        self._answers.put(message)
                    else:
                        self._record(message["method"], message["params"])

    def _record(self, method: str, values: Mapping[str, Any]) -> None:
        if method == "Target.attachedToTarget":
            if values["targetInfo"]["type"] != "page":
                self._watch(values["sessionId"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(values["request"]["url"])
        elif method == "Log.entryAdded":
            self.messages.append(values["entry"]["text"])
        elif method == "Tracing.dataCollected":
            self._trace += values["value"]
        elif method == "Tracing.tracingComplete":
            self._is_traced.set()
        elif method == "Runtime.exceptionThrown":
            self.messages.append(json.dumps(values["exceptionDetails"]))


class Site:
    """A folder that is served on this machine.

    Attributes:
        url: address of the folder.
        requests: paths that were asked for.
    """

    def __init__(self, folder: Path) -> None:
        requests: list[str] = []

        class Handler(SimpleHTTPRequestHandler):
            def __init__(self, *arguments: Any) -> None:
                super().__init__(*arguments, directory=str(folder))

            def log_request(self, *_: Any) -> None:
                requests.append(self.path)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"
        self.requests = requests
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Stops the server, as if the network were gone."""
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def served(folder: Path) -> Iterator[Site]:
    """Serves a folder."""
    site = Site(folder)
    try:
        yield site
    finally:
        site.stop()
