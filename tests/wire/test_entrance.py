"""How services are entered, as their settings say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import structlog

from shared.rpc.entrance import entrance_of
from shared.rpc.identity import EVERYONE
from shared.rpc.tls import Tls
from shared.runtime.faults import StartupFault
from shared.runtime.settings import ServiceSettings, SettingsFault, TlsSettings, load
from tests.support.certificates import LOOPBACK, Authority
from tests.support.token_keys import document, the_key

SECRET = "a secret of this test, at least 32 bytes"
LOCAL = ["127.0.0.1:7410", "127.8.8.8:7410", "localhost:7410", "[::1]:7410", "unix:/run/baton.sock"]
OPEN = ["0.0.0.0:7410", "[::]:7410", ":7410", "10.0.0.7:7410", "api.local:7410"]


def told(**settings: Any) -> ServiceSettings:
    servers: dict[str, Any] = {"database_url": "postgresql://nowhere", "redis_url": "redis://nowhere"}
    return ServiceSettings(**servers, **settings)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    path.write_bytes(document(the_key()))
    return path


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.mark.parametrize("address", LOCAL)
async def test_without_identity_a_service_listens_on_loopback_and_says_so(address: str) -> None:
    with structlog.testing.capture_logs() as lines:
        entrance = await entrance_of(address, told())
    assert entrance.known_by == EVERYONE
    assert [line["event"] for line in lines] == ["server.loopback_only"]


@pytest.mark.parametrize("address", OPEN)
@pytest.mark.parametrize("secret", [None, ""])
async def test_without_identity_no_service_listens_elsewhere(address: str, secret: str | None) -> None:
    with pytest.raises(
        StartupFault, match="set BATON_TOKEN_SECRET, BATON_TOKEN_KEYS_FILE, BATON_TOKEN_KEYS_URL"
    ):
        await entrance_of(address, told(token_secret=secret))


async def test_tls_alone_is_no_identity(authority: Authority) -> None:
    server = authority.signed("server", names=LOOPBACK)
    with pytest.raises(StartupFault, match="can be reached from other machines"):
        await entrance_of("0.0.0.0:7410", told(tls=server.settings()))
    entrance = await entrance_of("127.0.0.1:7410", told(tls=server.settings()))
    assert entrance.known_by == EVERYONE
    assert entrance.credentials is not None


@pytest.mark.parametrize("address", OPEN)
async def test_with_an_identity_a_service_listens_anywhere(
    address: str, keys: Path, authority: Authority
) -> None:
    server = authority.signed("server", names=LOOPBACK)
    for settings in (
        {"token_secret": SECRET},
        {"token_keys_file": keys},
        {"tls": {**server.settings(), "client_ca_file": str(authority.file)}},
    ):
        entrance = await entrance_of(address, told(**settings))
        assert entrance.known_by != EVERYONE


async def test_a_service_starts_while_the_issuer_of_its_tokens_is_away() -> None:
    with structlog.testing.capture_logs() as lines:
        await entrance_of("0.0.0.0:7410", told(token_keys_url="http://127.0.0.1:1/keys.json?key=of-ours"))
    [line] = lines
    assert (line["event"], line["url"]) == ("key_set.not_fetched", "http://127.0.0.1:1/keys.json")
    assert "of-ours" not in str(line)


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        (
            {"TOKEN_SECRET": SECRET, "TOKEN_KEYS_FILE": "keys.json"},
            "BATON_TOKEN_SECRET and BATON_TOKEN_KEYS_FILE are set: tokens are verified in one way only",
        ),
        (
            {"TOKEN_SECRET": SECRET, "TOKEN_KEYS_URL": "https://issuer"},
            "BATON_TOKEN_SECRET and BATON_TOKEN_KEYS_URL are set: tokens are verified in one way only",
        ),
        (
            {"TOKEN_KEYS_FILE": "keys.json", "TOKEN_KEYS_URL": "https://issuer"},
            "BATON_TOKEN_KEYS_FILE and BATON_TOKEN_KEYS_URL are set: tokens are verified in one way only",
        ),
        ({"TOKEN_ISSUER": "https://issuer"}, "an issuer or audience of tokens is expected, but none of"),
        ({"TLS__KEY_FILE": "server.key"}, "BATON_TLS: certificate_file and key_file go together"),
        ({"TLS__CERTIFICATE_FILE": "server.pem"}, "BATON_TLS: certificate_file and key_file go together"),
        ({"TLS__CLIENT_CA_FILE": "ca.pem"}, "BATON_TLS: client_ca_file needs certificate_file and key_file"),
        ({"TLS__CLIENT_SCOPES": '{"ada": ["jobs.read"]}'}, "BATON_TLS: client_scopes needs client_ca_file"),
        ({"TLS__CLIENT_SCOPES": '{"ada": "jobs.read"}'}, "BATON_TLS__CLIENT_SCOPES: ada: input should be"),
        ({"TLS__CLIENT_SCOPES": "ada"}, "BATON_TLS"),
        ({"TLS__CLIENTCA_FILE": "ca.pem"}, "did you mean BATON_TLS__CLIENT_CA_FILE?"),
    ],
)
def test_settings_that_do_not_fit_together_are_told_in_a_line(
    environment: dict[str, str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = {"DATABASE_URL": "postgresql://nowhere", "REDIS_URL": "redis://nowhere"}
    for name, value in (servers | environment).items():
        monkeypatch.setenv(f"BATON_{name}", value)
    with pytest.raises(SettingsFault) as caught:
        load(ServiceSettings)
    [line] = caught.value.faults
    assert line.startswith(sentence) or line.endswith(sentence)
    assert SECRET not in line


def test_an_empty_variable_is_one_that_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("TOKEN_SECRET", "TOKEN_KEYS_FILE", "TOKEN_KEYS_URL", "TOKEN_ISSUER", "TOKEN_AUDIENCE")
    for name in (*names, "TLS__CERTIFICATE_FILE", "TLS__KEY_FILE", "TLS__CA_FILE", "TLS__CLIENT_CA_FILE"):
        monkeypatch.setenv(f"BATON_{name}", "")
    monkeypatch.setenv("BATON_DATABASE_URL", "postgresql://nowhere")
    monkeypatch.setenv("BATON_REDIS_URL", "redis://nowhere")
    settings = load(ServiceSettings)
    assert (settings.token_keys_file, settings.token_keys_url, settings.token_issuer) == (None, None, None)
    assert settings.tls == TlsSettings()


def test_a_caller_with_a_certificate_and_nobody_to_believe_is_told_so() -> None:
    settings = TlsSettings(certificate_file=Path("ada.pem"), key_file=Path("ada.key"))
    with pytest.raises(StartupFault, match="BATON_TLS__CA_FILE is needed"):
        Tls.told(settings)
    assert Tls.told(TlsSettings()) is None
