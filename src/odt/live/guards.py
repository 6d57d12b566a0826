"""What the server accepts and sends: only its own page on this machine may talk to it."""

import hmac
from email.message import Message

from odt.dataclass import dataclass

MAX_BYTES = 1 << 25  # of a dropped file
MAX_DIGITS = 12  # of a length; int() takes long for many more
# Only the page's own script and styles, and pictures within it; nothing of other hosts.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the address has the token
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is refused.

    Attributes:
        status: status of HTTP.
        reason: the reason as text.
    """

    status: int
    reason: str


class Guard:
    """Checks requests.

    Args:
        port: port of the server.
        token: random first part of each path.
    """

    def __init__(self, port: int, token: str) -> None:
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        self._token = token

    def route(self, headers: Message, path: str) -> str | Refusal:
        """Returns the part of a path after the token; a refusal for requests of other sites.

        The header Host must be that of the page's address. A site whose name is made to lead to
        the loopback interface (DNS rebinding) has another one.
        """
        if headers.get_all("Host", []) not in [[host] for host in self._hosts]:
            return Refusal(403, "The host must be 127.0.0.1 or localhost.")
        token, slash, route = path.lstrip("/").partition("/")
        if not slash or not hmac.compare_digest(token.encode(), self._token.encode()):
            return Refusal(404, "There is no such page.")
        return route

    def check_sender(self, headers: Message) -> Refusal | None:
        """Returns the refusal of content that another page sends; None for this server's page."""
        if headers.get("Origin") not in {f"http://{host}" for host in self._hosts}:
            return Refusal(403, "The page must be this server's.")
        if headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
            return Refusal(403, "The page must be this server's.")
        return None

    def length(self, headers: Message) -> int | Refusal:
        """Returns the number of bytes of the content; a refusal if it is unknown or too large."""
        text = headers.get("Content-Length", "")
        if "Transfer-Encoding" in headers or not (text.isascii() and text.isdigit()):
            return Refusal(411, "The length must be given.")
        if len(text) > MAX_DIGITS or int(text) > MAX_BYTES:
            return Refusal(413, f"A file must have at most {MAX_BYTES >> 20} MB.")
        return int(text)
