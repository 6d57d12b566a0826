"""Certificates and keys of a federation: TLS of the SuperLink, a key pair for each SuperNode."""

import datetime
import ipaddress
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import NameOID

from odt.core.recipe.option_values import check_whole
from odt.core.storage.reading import printable, unwritable
from odt.errors import OdtError

DAYS = 365
MAX_NODES, MAX_DAYS = 100_000, 36_500
LABEL = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?"
HOST = re.compile(rf"(?=.{{1,253}}$)(\*\.)?{LABEL}(\.{LABEL})*")
MAX_COMMON_NAME = 64  # of X.509; alternative names may be longer
CURVE = ec.SECP384R1()
SECRET, PUBLIC = 0o600, 0o644  # modes of files


def make_keys(
    folder: str | os.PathLike[str],
    *,
    hosts: Sequence[str] = ("localhost", "127.0.0.1"),
    nodes: int = 4,
    days: int = DAYS,
) -> None:
    """Writes certificates and keys; private keys can be read by their owner only.

    `ca.crt` goes to every machine. `server.crt` and `server.key` stay on the SuperLink's. Each
    SuperNode has one `node-N.key`; `flwr supernode register` takes `node-N.pub`. `ca.key` signs
    new server certificates; keep it off the network.

    Args:
        folder: new or empty folder.
        hosts: names and addresses by which SuperNodes reach the SuperLink.
        nodes: number of SuperNodes.
        days: days for which the certificates are valid.

    Raises:
        OdtError: if the folder has files, because keys are never overwritten, or it or a file
            cannot be written; if a host is neither a name nor an address, or a number is out of
            range. What was written before is then removed.
    """
    path = Path(folder)
    check_whole("nodes", nodes, 1)
    check_whole("days", days, 1)
    if nodes > MAX_NODES or days > MAX_DAYS:
        raise OdtError(
            f"make_keys: nodes and days must be at most {MAX_NODES} and {MAX_DAYS}, but got "
            f"{printable(nodes)} and {printable(days)}."
        )
    if not hosts or isinstance(hosts, str):
        got = printable(hosts) if hosts else "none"
        raise OdtError(f"make_keys: hosts must be a list of names or addresses, but got {got}.")
    addresses = [_host(name) for name in hosts]
    with ExitStack() as undo:  # removes what is written if a later file cannot be
        _make_empty(path, undo)
        for name, content, mode in _files(hosts[0], addresses, nodes, days):
            _write(path / name, content, mode, undo)
        undo.pop_all()


def _files(
    host: str, addresses: Sequence[x509.GeneralName], nodes: int, days: int
) -> Iterator[tuple[str, bytes, int]]:
    """Yields name, content and mode of each file.

    Args:
        host: first name of the SuperLink.
        addresses: all its names and addresses.
        nodes: number of SuperNodes.
        days: days for which the certificates are valid.
    """
    authority_key = ec.generate_private_key(CURVE)
    server_key = ec.generate_private_key(CURVE)
    authority = _name("odt federation")
    ca = (
        _certificate(authority, authority, authority_key, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .sign(authority_key, hashes.SHA384())
    )
    server = (
        _certificate(_name(_common_name(host)), authority, server_key, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.SubjectAlternativeName(addresses), critical=False)
        .sign(authority_key, hashes.SHA384())
    )
    yield "ca.key", _private(authority_key), SECRET
    yield "ca.crt", ca.public_bytes(Encoding.PEM), PUBLIC
    yield "server.key", _private(server_key), SECRET
    yield "server.crt", server.public_bytes(Encoding.PEM), PUBLIC
    for k in range(nodes):
        key = ec.generate_private_key(CURVE)
        ssh = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        yield f"node-{k}.key", ssh, SECRET
        yield f"node-{k}.pub", public + b"\n", PUBLIC


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))  # clocks of devices differ
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(**flags: bool) -> x509.KeyUsage:
    kinds = (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    )
    return x509.KeyUsage(**{kind: flags.get(kind, False) for kind in kinds})


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _common_name(host: str) -> str:
    """Returns a common name, which only people read: clients compare the alternative names."""
    return host if len(host) <= MAX_COMMON_NAME else "odt SuperLink"


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        if not HOST.fullmatch(name):
            raise OdtError(
                "make_keys: hosts must be names or addresses such as server.example.com or "
                f"192.0.2.1, but got {printable(name)}."
            ) from None
        return x509.DNSName(name)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _make_empty(path: Path, undo: ExitStack) -> None:
    """Makes a folder that only its owner can read, unless there is an empty one."""
    try:
        if not path.exists():
            path.mkdir(mode=0o700, parents=True)
            undo.callback(path.rmdir)
        elif any(path.iterdir()):
            raise OdtError(f"{path}: must be empty, but got files. Keys are never overwritten.")
    except OSError as e:
        raise OdtError(unwritable(path, e, "folder")) from e


def _write(path: Path, content: bytes, mode: int, undo: ExitStack) -> None:
    """Writes a new file."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            undo.callback(path.unlink)
            file.write(content)
    except OSError as e:
        raise OdtError(unwritable(path, e)) from e
