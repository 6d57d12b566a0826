"""The server of the live page, on the loopback interface."""

import json
import os
import socketserver
import sys
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from odt.dataclass import dataclass
from odt.errors import OdtError
from odt.live.guards import HEADERS, Guard, Refusal

HOST = "127.0.0.1"
TIMEOUT = 30.0  # seconds that a browser may stay silent within a request
HTML, TEXT, JSON = "text/html", "text/plain", "application/json"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server sends.

    Attributes:
        content: the bytes.
        kind: media type.
        status: status of HTTP.
    """

    content: bytes
    kind: str = TEXT
    status: int = 200

    @classmethod
    def of(cls, text: str, kind: str = TEXT, status: int = 200) -> "Answer":
        """Returns an answer with a text."""
        return cls(text.encode(errors="replace"), kind, status)

    @classmethod
    def json(cls, value: object) -> "Answer":
        """Returns an answer with a value as JSON."""
        return cls.of(json.dumps(value), JSON)


Query = Mapping[str, str]
Get = Callable[[Query], Answer]
Post = Callable[[Query, bytes], Answer]


class Server(ThreadingHTTPServer):
    """Answers requests of its own page, each in a thread.

    Args:
        port: the port; 0 for a free one.
        token: random first part of each path.
        pages: path after the token → what GET returns.
        actions: path after the token → what POST does.

    Raises:
        OSError: if the port cannot be used.
    """

    daemon_threads = True
    allow_reuse_address = os.name == "posix"  # on Windows others could take the port over

    def __init__(
        self, port: int, token: str, pages: Mapping[str, Get], actions: Mapping[str, Post]
    ) -> None:
        super().__init__((HOST, port), Handler)
        self.pages = pages
        self.actions = actions
        self.port = int(self.server_address[1])
        self.guard = Guard(self.port, token)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.1,), daemon=True)
        self._thread.start()

    def server_bind(self) -> None:
        """Binds the port, without looking up the name of the host as HTTPServer does."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, int(self.server_address[1])

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignores a closed connection; shows the traceback of other errors, which are bugs."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    def stop(self) -> None:
        """Stops answering and frees the port."""
        self.shutdown()
        self._thread.join()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Server
    server_version = "odt"
    sys_version = ""
    timeout = TIMEOUT

    def do_GET(self) -> None:
        """Answers a page."""
        self._send(self._get())

    def do_POST(self) -> None:
        """Answers a dropped file or a row."""
        self._send(self._post())

    def _get(self) -> Answer:
        """Returns the answer to the request of a page."""
        route = self.server.guard.route(self.headers, urlsplit(self.path).path)
        if isinstance(route, Refusal):
            return _refused(route)
        page = self.server.pages.get(route)
        if page is None:
            return _refused(Refusal(404, "There is no such page."))
        return _answered(lambda: page(self._query()))

    def _post(self) -> Answer:
        """Returns the answer to content that this server's page sends."""
        guard = self.server.guard
        route = guard.route(self.headers, urlsplit(self.path).path)
        if isinstance(route, Refusal):
            return _refused(route)
        refusal = guard.check_sender(self.headers)
        if refusal:
            return _refused(refusal)
        action = self.server.actions.get(route)
        if action is None:
            return _refused(Refusal(404, "There is no such page."))
        length = guard.length(self.headers)
        if isinstance(length, Refusal):
            return _refused(length)
        content = self.rfile.read(length)
        if len(content) != length:
            return _refused(Refusal(400, "The content must be complete."))
        return _answered(lambda: action(self._query(), content))

    def _query(self) -> Query:
        values = parse_qs(urlsplit(self.path).query, max_num_fields=8)
        return {name: texts[0] for name, texts in values.items()}

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{answer.kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Sends an error of http.server itself, such as an unknown method, as text."""
        self.close_connection = True
        self._send(Answer.of(message or "refused", status=int(code)))

    def log_message(self, format: str, *args: object) -> None:
        """Prints nothing for a request."""


def _refused(refusal: Refusal) -> Answer:
    return Answer.of(refusal.reason, status=refusal.status)


def _answered(function: Callable[[], Answer]) -> Answer:
    """Returns the answer of a function, or the message of an error that a user can cause."""
    try:
        return function()
    except OdtError as e:
        return Answer.of(str(e), status=422)
    except (ValueError, RecursionError) as e:  # of a query with too many fields
        return Answer.of(type(e).__name__, status=400)
