"""Callers that are known by their certificates, on real connections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from grpc_health.v1 import health_pb2, health_pb2_grpc

from shared.domain.errors import Unauthenticated
from shared.rpc.calls import Context
from shared.rpc.certificates import ServerFiles, certified, server_credentials
from shared.rpc.channel import call_metadata
from shared.rpc.identity import EVERYONE, KnownBy, current_caller
from shared.rpc.server import Entrance
from shared.rpc.tls import Tls, async_channel
from shared.rpc.tokens import shared_secret
from shared.runtime.faults import StartupFault
from tests.support.certificates import LOOPBACK, Authority, Files
from tests.support.four_kinds import KINDS, running
from tests.wire.test_identity import SECRET, token

every_kind = pytest.mark.parametrize("kind", KINDS)
SCOPES_SETTING = "BATON_TLS__CLIENT_SCOPES"
SPIFFE = x509.UniformResourceIdentifier("spiffe://example.org/backend")
PAGE = x509.UniformResourceIdentifier("https://example.org/backend")


async def who(context: Context) -> bytes:
    caller = current_caller()
    return f"{caller.subject}: {' '.join(sorted(caller.scopes))}".encode()


class House:
    """An authority, a server that it vouches for, and callers."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory)
        self.server = self.authority.signed("server", names=LOOPBACK)
        self.ada = self.authority.signed("ada", common_name="ada")

    def entrance(self, scopes: dict[str, list[str]] | None = None, *, tokens: bool = False) -> Entrance:
        files = ServerFiles(self.server.certificate, self.server.key, self.authority.file)
        verify = shared_secret(SECRET, setting="BATON_TOKEN_SECRET") if tokens else None
        return Entrance(
            KnownBy(verify, certified(scopes or {}, setting=SCOPES_SETTING)), server_credentials(files)
        )

    def shown(self, files: Files | None) -> grpc.ChannelCredentials:
        """What a caller dials with that shows a certificate, or none."""
        if files is None:
            return Tls(self.authority.file).credentials()
        return Tls(self.authority.file, files.certificate, files.key).credentials()


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


async def asked(house: House, entrance: Entrance, files: Files | None, *, kind: str = "UnaryUnary") -> bytes:
    async with running(who, entrance=entrance, credentials=house.shown(files)) as server:
        return (await server.ask(kind))[-1]


async def refusal(house: House, entrance: Entrance, files: Files | None, **said: Any) -> Any:
    async with running(who, entrance=entrance, credentials=house.shown(files)) as server:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.ask("UnaryUnary", **said)
    return caught.value.code()


@every_kind
async def test_a_call_without_a_token_is_made_by_the_certificate(kind: str, house: House) -> None:
    entrance = house.entrance({"ada": ["jobs.read", "jobs.write"]})
    assert await asked(house, entrance, house.ada, kind=kind) == b"ada: jobs.read jobs.write"


@pytest.mark.parametrize(
    ("common_name", "names", "subject"),
    [
        ("ada", [], "ada"),
        ("ada", [x509.DNSName("a.example"), x509.DNSName("b.example")], "a.example"),
        ("ada", [x509.DNSName("a.example"), PAGE, SPIFFE], "spiffe://example.org/backend"),
        ("", [SPIFFE], "spiffe://example.org/backend"),
        ("ada", [PAGE], "ada"),
        ("ada", [x509.RFC822Name("ada@example.org")], "ada"),
        ("Zoë", [], "Zoë"),
    ],
)
async def test_the_subject_is_the_spiffe_id_else_a_dns_name_else_the_common_name(
    common_name: str, names: list[x509.GeneralName], subject: str, house: House
) -> None:
    files = house.authority.signed("caller", common_name=common_name, names=names)
    entrance = house.entrance({subject: ["jobs.read"]})
    assert await asked(house, entrance, files) == f"{subject}: jobs.read".encode()


async def test_a_certificate_that_names_nobody_is_refused(house: House) -> None:
    nobody = house.authority.signed("nobody", names=[PAGE])
    assert await refusal(house, house.entrance(), nobody) is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize("name", [b"ad\xff", b"ad\0a", b"ad\na", b"", b"a" * 201])
def test_a_name_that_is_no_text_is_nobody_s(name: bytes) -> None:
    recognise = certified({}, setting=SCOPES_SETTING)
    for field in ("x509_common_name", "peer_dns"):
        with pytest.raises(Unauthenticated):
            recognise({field: [name]})


async def test_a_subject_that_the_settings_do_not_name_may_do_nothing(house: House) -> None:
    entrance = house.entrance({"bob": ["jobs.read"]})
    assert await refusal(house, entrance, house.ada) is grpc.StatusCode.PERMISSION_DENIED


@every_kind
async def test_a_token_goes_before_the_certificate(kind: str, house: House) -> None:
    entrance = house.entrance({"ada": ["jobs.read", "jobs.write"]}, tokens=True)
    async with running(who, entrance=entrance, credentials=house.shown(house.ada)) as server:
        metadata = tuple(call_metadata(token(sub="bob")))
        assert (await server.ask(kind, metadata=metadata))[-1] == b"bob: jobs.read"
        assert (await server.ask(kind))[-1] == b"ada: jobs.read jobs.write"


@pytest.mark.parametrize("tokens", [True, False], ids=["tokens are verified", "certificates only"])
async def test_a_bad_token_is_refused_whatever_the_certificate(tokens: bool, house: House) -> None:
    entrance = house.entrance({"ada": ["jobs.read"]}, tokens=tokens)
    metadata = tuple(call_metadata(token(exp=1)))
    code = await refusal(house, entrance, house.ada, metadata=metadata)
    assert code is grpc.StatusCode.UNAUTHENTICATED


async def test_without_a_certificate_that_the_authority_signed_there_is_no_connection(
    house: House, tmp_path: Path
) -> None:
    another = Authority(tmp_path, "another").signed("eve", common_name="ada")
    expired = house.authority.signed("expired", common_name="ada", days=-1)
    for files in (None, another, expired):
        entrance = house.entrance({"ada": ["jobs.read"]}, tokens=True)
        code = await refusal(house, entrance, files, metadata=tuple(call_metadata(token())))
        assert code is grpc.StatusCode.UNAVAILABLE
    async with running(who, entrance=house.entrance()) as plaintext:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await plaintext.ask("UnaryUnary")
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_caller_does_not_talk_to_a_server_that_its_authority_did_not_sign(
    house: House, tmp_path: Path
) -> None:
    another = Tls(Authority(tmp_path, "another").file, house.ada.certificate, house.ada.key).credentials()
    async with running(who, entrance=house.entrance(), credentials=another) as server:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.ask("UnaryUnary")
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_without_a_client_authority_a_certificate_proves_nothing(house: House) -> None:
    files = ServerFiles(house.server.certificate, house.server.key, None)
    verify = shared_secret(SECRET, setting="BATON_TOKEN_SECRET")
    guarded = Entrance(KnownBy(verify), server_credentials(files))
    assert await refusal(house, guarded, house.ada) is grpc.StatusCode.UNAUTHENTICATED
    everyone = Entrance(EVERYONE, server_credentials(files))
    assert (await asked(house, everyone, house.ada)).startswith(b"local: ")


async def health(channel: grpc.aio.Channel) -> health_pb2.HealthCheckResponse:
    stub: Any = health_pb2_grpc.HealthStub(channel)
    answer: health_pb2.HealthCheckResponse = await stub.Check(health_pb2.HealthCheckRequest())
    return answer


async def test_probes_need_no_scope_but_a_certificate(house: House) -> None:
    async with running(who, entrance=house.entrance(), credentials=house.shown(house.ada)) as server:
        answer = await health(server.channel)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        async with async_channel(server.opened.address, house.shown(None), ()) as bare:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await health(bare)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def reached(address: str, tls: Tls) -> bool:
    """Whether a new connection comes about."""
    alone = (("grpc.use_local_subchannel_pool", 1),)
    async with async_channel(address, tls.credentials(), alone) as channel:
        try:
            await health(channel)
        except grpc.aio.AioRpcError as error:
            assert error.code() is grpc.StatusCode.UNAVAILABLE  # noqa: PT017
            return False
    return True


async def test_renewed_certificates_count_for_new_connections_and_old_ones_stand(
    house: House, tmp_path: Path
) -> None:
    old, new = house.authority.file, Authority(tmp_path, "new")
    kept = house.authority.file.read_bytes()
    trusted = tmp_path / "old.pem"
    trusted.write_bytes(kept)
    ada = Tls(trusted, house.ada.certificate, house.ada.key)
    eve = new.signed("eve", common_name="eve")
    async with running(
        who, entrance=house.entrance({"ada": ["jobs.read"]}), credentials=ada.credentials()
    ) as server:
        assert await server.ask("UnaryUnary")
        assert await reached(server.opened.address, ada)

        house.server.replace_by(new.signed("server-2", names=LOOPBACK))
        assert not await reached(server.opened.address, ada)
        assert await reached(server.opened.address, Tls(new.file, house.ada.certificate, house.ada.key))

        assert not await reached(server.opened.address, Tls(new.file, eve.certificate, eve.key))
        old.write_bytes(new.file.read_bytes())
        assert await reached(server.opened.address, Tls(new.file, eve.certificate, eve.key))
        assert await server.ask("UnaryUnary")


@pytest.mark.parametrize("damage", ["another key", "no key", "garbage", "empty authority"])
async def test_while_files_do_not_fit_together_the_last_that_did_go_on(damage: str, house: House) -> None:
    ada = Tls(house.authority.file, house.ada.certificate, house.ada.key)
    trusted = ada.credentials()
    async with running(who, entrance=house.entrance({"ada": ["jobs.read"]}), credentials=trusted) as server:
        damaged(house, damage)
        assert (await server.ask("UnaryUnary"))[-1] == b"ada: jobs.read"


def damaged(house: House, damage: str) -> None:
    match damage:
        case "another key":
            house.server.key.write_bytes(house.ada.key.read_bytes())
        case "no key":
            house.server.key.unlink()
        case "garbage":
            house.server.certificate.write_text("garbage")
        case _:
            house.authority.file.write_bytes(b"")


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        ("another key", r"server\.key is not the key of .*server\.pem"),
        ("no key", r"server\.key can't be read: No such file"),
        ("garbage", r"server\.pem holds no certificate in PEM"),
        ("empty authority", r"authority\.pem holds no certificate in PEM"),
    ],
)
def test_files_that_can_not_be_used_keep_a_service_from_starting(
    damage: str, sentence: str, house: House
) -> None:
    damaged(house, damage)
    with pytest.raises(StartupFault, match=sentence):
        house.entrance()


def test_a_caller_is_told_which_file_it_can_not_use(house: House) -> None:
    with pytest.raises(StartupFault, match=r"ada\.key is not the key of .*server\.pem"):
        Tls(house.authority.file, house.server.certificate, house.ada.key).credentials()
    with pytest.raises(StartupFault, match=r"nowhere\.pem can't be read"):
        Tls(Path("nowhere.pem")).credentials()


def test_scopes_of_certificates_are_scopes_that_there_are(house: House) -> None:
    with pytest.raises(
        StartupFault, match=f"{SCOPES_SETTING} names unknown scopes: jobs.reed; there are jobs"
    ):
        house.entrance({"ada": ["jobs.reed", "jobs.read"]})
