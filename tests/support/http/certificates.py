"""An authority of a test, and the certificates that it gives."""

from __future__ import annotations

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_PEM = serialization.Encoding.PEM


class CertificateAuthority:
    """Gives certificates that are valid for a day.

    Args:
        folder: for its files.

    Attributes:
        file: its certificate, for who shall trust it.
    """

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder, self._name = folder, _named(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.file = folder / f"{name}.pem"
        made = self._builder(self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.file.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(_PEM))

    def issue(self, name: str, password: str | None = None) -> tuple[Path, Path]:
        """The files of a certificate for a host name, an address or a user, and of its key.

        Args:
            password: encrypts the key.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        made = self._builder(_named(name), key).add_extension(
            x509.SubjectAlternativeName([_alternative(name)]), critical=False
        )
        locked = (
            serialization.BestAvailableEncryption(password.encode())
            if password
            else serialization.NoEncryption()
        )
        certificate, secret = self._folder / f"{name}.cert.pem", self._folder / f"{name}.key.pem"
        certificate.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(_PEM))
        secret.write_bytes(key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, locked))
        return certificate, secret

    def serving(self, name: str) -> ssl.SSLContext:
        """What a server shows that is called so."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.issue(name))
        return context

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
