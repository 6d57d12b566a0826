"""A SuperLink and SuperNodes of Flower on the loopback interface, stopped at the end."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

BIN = Path(sys.executable).parent
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
LONG = 240  # seconds after which a run has failed


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


def wait_for(condition: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def processes(mark: str) -> list[int]:
    """Numbers of the running processes that have a text in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return [pid for pid in found if pid != os.getpid()]


def end(mark: str) -> None:
    """Ends all processes with a text in their environment, at once, as a power cut does."""
    for _ in range(100):
        running = processes(mark)
        if not running:
            return
        for pid in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
    raise AssertionError(f"processes with {mark} do not end")


class Fleet:
    """Commands of Flower with a home folder of their own.

    Args:
        folder: folder for logs and Flower's files.
        keys: folder of `make_keys`, for TLS and authentication; None for neither.
    """

    def __init__(self, folder: Path, keys: Path | None = None) -> None:
        self.folder, self.keys, self.port = folder, keys, free_port()
        self.home = folder / "flower-home"
        self.home.mkdir()
        tls = f'root-certificates = "{keys}/ca.crt"' if keys else "insecure = true"
        (self.home / "config.toml").write_text(
            f'[superlink]\ndefault = "local"\n[superlink.local]\naddress = ":local:"\n'
            f'[superlink.fleet]\naddress = "127.0.0.1:{self.port}"\n{tls}\n'
        )

    def environment(self, name: str) -> dict[str, str]:
        # A proxy that refuses: whoever asks for the network fails.
        nowhere = "http://127.0.0.1:9"
        return {
            **os.environ,
            **QUIET,
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "FLWR_HOME": str(self.home),
            "FLWR_LOCAL_CONTROL_API_PORT": str(free_port()),
            "HTTPS_PROXY": nowhere,
            "HTTP_PROXY": nowhere,
            "NO_PROXY": "127.0.0.1,localhost",
            "ODT_PART": f"{name}.",
        }

    def start(self, name: str, *words: object) -> None:
        log = (self.folder / f"{name}.log").open("ab")
        subprocess.Popen(
            ["nice", *map(str, words)],
            env=self.environment(name),
            cwd=self.folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def stop(self, name: str) -> None:
        end(f"FLWR_HOME={self.home}\0" if name == "" else f"ODT_PART={name}.\0")

    def start_link(self) -> None:
        tls: tuple[object, ...] = ("--insecure",)
        if self.keys:
            tls = ("--ssl-certfile", self.keys / "server.crt", "--ssl-keyfile")
            tls += (self.keys / "server.key", "--ssl-ca-certfile", self.keys / "ca.crt")
            tls += ("--enable-supernode-auth",)
        where = ("--host", "127.0.0.1", "--port", self.port, "--database", self.folder / "link.db")
        no_install = "--disable-runtime-dependency-installation"
        self.start("link", "flower-superlink", *tls, *where, no_install)
        wait_for(lambda: listens(self.port))

    def start_node(
        self,
        number: int,
        count: int,
        more: Mapping[str, object] | None = None,
        *,
        port: int = 0,
        register: bool = True,
    ) -> None:
        tls: tuple[object, ...] = ("--insecure",)
        if self.keys:
            key = self.keys / f"node-{number}"
            if register:
                self.flwr("supernode", "register", f"{key}.pub", "fleet")
            tls = ("--root-certificates", self.keys / "ca.crt")
            tls += ("--auth-supernode-private-key", f"{key}.key")
        settings: Mapping[str, object] = {
            "partition-id": number,
            "num-partitions": count,
            **(more or {}),
        }
        config = " ".join(f"{k}={v!r}".replace("'", '"') for k, v in settings.items())
        link = ("--superlink", f"127.0.0.1:{port or self.port}")
        here = ("--host", "127.0.0.1", "--port", free_port(), "--node-config", config)
        self.start(f"node-{number}", "flower-supernode", *tls, *link, *here)

    def flwr(self, *words: object) -> str:
        """Runs a command of Flower; returns what it prints."""
        done = subprocess.run(
            [BIN / "flwr", *map(str, words)],
            env=self.environment("flwr"),
            cwd=self.folder,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LONG,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return str(done.stdout)

    def run(self, app: Path) -> str:
        return self.flwr("run", app, "fleet", "--stream")

    def logs(self) -> str:
        return "\n".join(p.read_text(errors="replace") for p in self.folder.glob("*.log"))


@contextlib.contextmanager
def fleet(folder: Path, keys: Path | None = None) -> Iterator[Fleet]:
    """A fleet whose processes end with the block."""
    made = Fleet(folder, keys)
    try:
        yield made
    except BaseException:
        print(made.logs()[-20_000:])
        raise
    finally:
        made.stop("")
        shutil.rmtree(made.home, ignore_errors=True)


def odt_command(*words: object, **options: Any) -> str:
    """Runs the command `odt` of this environment; returns what it prints."""
    done = subprocess.run(
        [BIN / "odt", *map(str, words)], text=True, capture_output=True, check=False, **options
    )
    assert done.returncode == 0, done.stderr
    return str(done.stdout)
