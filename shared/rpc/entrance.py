"""How a service is entered, as its settings say: with tokens, with certificates, or on loopback only."""

from __future__ import annotations

import structlog

from shared.rpc.certificates import ServerFiles, certified, server_credentials
from shared.rpc.identity import EVERYONE, KnownBy, Recognise, Verify
from shared.rpc.key_fetch import KeyFetch
from shared.rpc.key_files import KeyFile
from shared.rpc.key_urls import KeyUrl
from shared.rpc.loopback import is_loopback
from shared.rpc.server import Entrance
from shared.rpc.tokens import Expected, key_set, shared_secret
from shared.runtime.clock import SystemClock
from shared.runtime.faults import StartupFault
from shared.runtime.settings import ServiceSettings

log = structlog.get_logger(__name__)

_SECRET = "BATON_TOKEN_SECRET"
_KEYS_FILE = "BATON_TOKEN_KEYS_FILE"
_KEYS_URL = "BATON_TOKEN_KEYS_URL"
_CLIENT_SCOPES = "BATON_TLS__CLIENT_SCOPES"
_IDENTITIES = f"{_SECRET}, {_KEYS_FILE}, {_KEYS_URL} or BATON_TLS__CLIENT_CA_FILE"


async def entrance_of(address: str, settings: ServiceSettings) -> Entrance:
    """Say how a service is entered that will listen on `address`; keys behind a URL are asked for once.

    Raises:
        StartupFault: A secret, key or certificate can't be used; or there is no identity, and others can
            reach the address.
    """
    known_by = KnownBy(token=await _verify(settings), certificate=_recognise(settings))
    _refuse_open_address_without_identity(address, known_by)
    tls = settings.tls
    if tls.certificate_file is None or tls.key_file is None:
        return Entrance(known_by)
    files = ServerFiles(tls.certificate_file, tls.key_file, tls.client_ca_file)
    return Entrance(known_by, server_credentials(files))


def _refuse_open_address_without_identity(address: str, known_by: KnownBy) -> None:
    """Let a server that knows nobody listen where only this machine reaches it, and say so.

    Raises:
        StartupFault: The address is reachable from elsewhere, and anyone there would be let in.
    """
    if known_by != EVERYONE:
        return
    if not (address.startswith("unix:") or is_loopback(address.rpartition(":")[0].strip("[]"))):
        raise StartupFault(
            f"{address} can be reached from other machines, and anyone there may do everything: "
            f"set {_IDENTITIES}, or listen on 127.0.0.1"
        )
    log.info("server.loopback_only", address=address, because=f"none of {_IDENTITIES} is set")


async def _verify(settings: ServiceSettings) -> Verify | None:
    expected = Expected(settings.token_issuer, settings.token_audience)
    monotonic = SystemClock().monotonic
    if settings.token_keys_file is not None:
        keys = KeyFile(settings.token_keys_file, setting=_KEYS_FILE, monotonic=monotonic)
        return key_set(keys, expected=expected)
    if settings.token_keys_url is not None:
        fetch = KeyFetch(settings.token_keys_url, setting=_KEYS_URL)
        key_url = KeyUrl(fetch, url=fetch.shown_url, monotonic=monotonic)
        await key_url.look()
        return key_set(key_url, expected=expected)
    secret = settings.token_secret.get_secret_value() if settings.token_secret else ""
    return shared_secret(secret, setting=_SECRET, expected=expected) if secret else None


def _recognise(settings: ServiceSettings) -> Recognise | None:
    tls = settings.tls
    return certified(tls.client_scopes, setting=_CLIENT_SCOPES) if tls.client_ca_file is not None else None
