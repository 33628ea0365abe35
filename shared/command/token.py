"""`baton token`: signs development tokens, by the services' shared secret or by a private key."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
from pydantic import SecretStr

from shared.domain.naming import there_are
from shared.domain.scopes import ALL_SCOPES, JOBS_READ, JOBS_WRITE
from shared.runtime.clock import SystemClock
from shared.runtime.faults import StartupFault
from shared.runtime.settings import OptionalText, ProcessSettings, load

LIFETIME_MAX = timedelta(days=366)
"""Nobody withdraws a token: one that leaks counts until its end, or until its key goes."""

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_SECRET = "BATON_TOKEN_SECRET"


class TokenSettings(ProcessSettings):
    """What services are told about tokens, and what a token must say to please them."""

    token_secret: SecretStr | None = None
    token_issuer: OptionalText = None
    token_audience: OptionalText = None


def _offered(incomplete: str) -> list[str]:
    return [each for each in sorted(ALL_SCOPES) if each.startswith(incomplete)]


def token_command(
    *,
    subject: Annotated[
        str | None, typer.Option(help="Who calls; the owner of the jobs that this token creates.")
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            help=f"What it allows; may be repeated. Default: {JOBS_READ} and {JOBS_WRITE}.",
            autocompletion=_offered,
        ),
    ] = None,
    lifetime: Annotated[
        str, typer.Option(help=f"A number and s, m, h or d; at most {LIFETIME_MAX.days}d.")
    ] = "1h",
    key: Annotated[
        Path | None, typer.Option(help="Sign with this private key (PEM: RSA, P-256, Ed25519).")
    ] = None,
    jwks: Annotated[
        bool, typer.Option("--jwks", help="Print the key set that verifies what --key signs, and no token.")
    ] = False,
    issuer: Annotated[str | None, typer.Option(help="Its `iss`; BATON_TOKEN_ISSUER by default.")] = None,
    audience: Annotated[str | None, typer.Option(help="Its `aud`; BATON_TOKEN_AUDIENCE by default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the token with what it says.")] = False,
) -> None:
    """Print a token for development, signed with BATON_TOKEN_SECRET or with --key.

    Services take it that have the same secret, or what --jwks prints in
    BATON_TOKEN_KEYS_FILE. Commands and executors send what is in BATON_TOKEN.
    """
    if jwks:
        typer.echo(_key_set(key))
        return
    from shared.rpc.tokens import Expected, read_signing_key, signed_token

    settings = load(TokenSettings)
    if not subject:
        raise StartupFault("--subject is required: who calls, and whose jobs they are")
    scopes, life, now = _scopes(scope), _lifetime(lifetime), SystemClock().now()
    token = signed_token(
        read_signing_key(key) if key is not None else _secret(settings),
        subject=subject,
        scopes=scopes,
        now=now,
        lifetime=life,
        expected=Expected(issuer or settings.token_issuer, audience or settings.token_audience),
    )
    if as_json:
        expire_time = (now + life).isoformat(timespec="seconds")
        told = {"token": token, "subject": subject, "scopes": sorted(scopes), "expire_time": expire_time}
        typer.echo(json.dumps(told))
    else:
        typer.echo(token)


def _secret(settings: TokenSettings) -> str:
    """Raises: StartupFault: There is none, or services would not take it."""
    from shared.rpc.tokens import shared_secret

    secret = settings.token_secret.get_secret_value() if settings.token_secret else ""
    if not secret:
        raise StartupFault(f"there is nothing to sign with: set {_SECRET}, or name a private key with --key")
    shared_secret(secret, setting=_SECRET)
    return secret


def _key_set(key: Path | None) -> str:
    if key is None:
        raise StartupFault("--jwks needs --key: a shared secret has no public half")
    from shared.rpc.tokens import read_signing_key

    return json.dumps({"keys": [dict(read_signing_key(key).public_jwk)]})


def _scopes(scopes: Collection[str] | None) -> Collection[str]:
    unknown = sorted(set(scopes or ()) - ALL_SCOPES)
    if unknown:
        raise StartupFault(f"unknown scopes: {', '.join(unknown)}{there_are(ALL_SCOPES)}")
    return scopes or (JOBS_READ, JOBS_WRITE)


def _lifetime(text: str) -> timedelta:
    found = re.fullmatch(r"([0-9]{1,9})([smhd])", text)
    if found is None:
        raise StartupFault("--lifetime must be a number and s, m, h or d, such as 30m or 7d")
    lifetime = timedelta(**{_UNITS[found[2]]: int(found[1])})
    if not timedelta(0) < lifetime <= LIFETIME_MAX:
        raise StartupFault(f"--lifetime must be from 1s to {LIFETIME_MAX.days}d")
    return lifetime
