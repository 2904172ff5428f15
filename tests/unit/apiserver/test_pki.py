"""The certificate authority of a data directory."""

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import ExtensionOID, NameOID

from mooring.apiserver.access.pki import Pki, PkiError, write_kubeconfig
from mooring.testing.clock import MockClock

pytestmark = pytest.mark.req("S.6")


@pytest.fixture
def clock() -> MockClock:
    return MockClock(datetime.now(UTC))


@pytest.fixture
def pki(tmp_path: Path, clock: MockClock) -> Pki:
    return Pki(tmp_path / "pki", clock)


def _names(pem: bytes) -> tuple[set[str], set[str]]:
    found = x509.load_pem_x509_certificate(pem).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return set(found.get_values_for_type(x509.DNSName)), set(map(str, found.get_values_for_type(x509.IPAddress)))


def test_files_can_be_read_by_their_owner_only(pki: Pki, tmp_path: Path) -> None:
    pki.server()
    pki.client("admin", "admin", ["system:masters"])
    pki.signing_key()
    files = sorted((tmp_path / "pki").iterdir())
    assert [file.name for file in files] == [
        *("admin.crt", "admin.key", "apiserver.crt", "apiserver.key", "ca.crt", "ca.key", "sa.key")
    ]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert (tmp_path / "pki").stat().st_mode & 0o777 == 0o700


def test_the_servers_certificate_names_this_machine_and_the_bind_address(pki: Pki) -> None:
    names, addresses = _names(pki.server(["192.0.2.1", "mooring.example"]).certificate)
    assert {"localhost", "kubernetes", "kubernetes.default.svc.cluster.local", "mooring.example"} <= names
    assert addresses == {"127.0.0.1", str(ipaddress.ip_address("::1")), "192.0.2.1"}


def test_a_clients_certificate_names_user_and_groups(pki: Pki) -> None:
    subject = x509.load_pem_x509_certificate(pki.client("c", "jane", ["a", "b"]).certificate).subject
    assert [name.value for name in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["jane"]
    assert [name.value for name in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == ["a", "b"]


def test_openssl_takes_them(pki: Pki) -> None:
    server, authority = pki.server(), pki.authority
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.certificate_file, server.key_file)
    context.load_verify_locations(cadata=authority.certificate.decode())


def test_what_is_still_good_is_kept(pki: Pki) -> None:
    assert pki.server(["192.0.2.1"]) == pki.server(["192.0.2.1"])
    assert pki.server(["192.0.2.1"]) == pki.server()  # it names more than is needed
    assert pki.client("c", "jane") == pki.client("c", "jane")


def test_another_address_or_user_needs_another_certificate(pki: Pki) -> None:
    assert pki.server(["192.0.2.1"]).certificate != pki.server(["192.0.2.2"]).certificate
    assert pki.client("c", "jane").certificate != pki.client("c", "john").certificate


def test_what_expires_soon_is_renewed(pki: Pki, clock: MockClock) -> None:
    old, authority = pki.server(), pki.authority
    clock.advance(timedelta(days=300).total_seconds())
    assert pki.server() == old
    clock.advance(timedelta(days=40).total_seconds())
    assert pki.server() != old
    assert pki.authority == authority


def test_a_new_authority_means_new_certificates(pki: Pki, clock: MockClock) -> None:
    old, client = pki.authority, pki.client("c", "jane")
    clock.advance(timedelta(days=3400).total_seconds())
    assert pki.client("c", "jane") != client
    assert pki.authority != old
    issued = x509.load_pem_x509_certificate(pki.client("c", "jane").certificate)
    issued.verify_directly_issued_by(x509.load_pem_x509_certificate(pki.authority.certificate))


@pytest.mark.req("S.7")
@pytest.mark.parametrize("days", [3400, 3700, -1], ids=["ends soon", "has ended", "has not begun"])
def test_an_authority_that_servers_share_is_not_replaced_by_one_of_them(
    tmp_path: Path, clock: MockClock, caplog: pytest.LogCaptureFixture, days: int
) -> None:
    shared = Pki(tmp_path / "pki", clock, is_shared=True)
    before = shared.fingerprints(), shared.authority.certificate
    later = Pki(tmp_path / "pki", MockClock(clock.now() + timedelta(days=days)), is_shared=True)
    later.server()
    assert (later.fingerprints(), later.authority.certificate) == before
    assert [record.message for record in caplog.records if "replace it on all servers" in record.message]


def test_certificates_say_what_they_are_for(pki: Pki) -> None:
    for pair, purpose in ((pki.server(), "serverAuth"), (pki.client("c", "jane"), "clientAuth")):
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert [each._name for each in usage] == [purpose]
        assert certificate.extensions.get_extension_for_oid(ExtensionOID.BASIC_CONSTRAINTS).critical


@pytest.mark.parametrize("file", ["ca.crt", "ca.key", "apiserver.key"])
def test_a_file_that_cannot_be_understood_is_named(pki: Pki, tmp_path: Path, file: str) -> None:
    pki.server()
    (tmp_path / "pki" / file).write_text("garbage")
    with pytest.raises(PkiError, match=f"{file} cannot be understood: remove it to make a new one"):
        pki.server()


def test_a_key_of_another_certificate_is_refused(pki: Pki, tmp_path: Path) -> None:
    pki.server()
    (tmp_path / "pki" / "ca.key").write_bytes((tmp_path / "pki" / "apiserver.key").read_bytes())
    with pytest.raises(PkiError, match="do not belong together"):
        pki.server()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path, clock: MockClock) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PkiError, match="cannot write"):
        Pki(tmp_path / "file" / "pki", clock).server()


def test_a_kubeconfig_holds_all_that_kubectl_needs(pki: Pki, tmp_path: Path) -> None:
    path = tmp_path / "admin.kubeconfig"
    write_kubeconfig(path, "https://127.0.0.1:6443", pki.authority.certificate, "jane", pki.client("c", "jane"))
    config = yaml.safe_load(path.read_text())
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:6443"
    assert config["current-context"] == config["contexts"][0]["name"]
    assert set(config["users"][0]["user"]) == {"client-certificate-data", "client-key-data"}
    assert path.stat().st_mode & 0o777 == 0o600
