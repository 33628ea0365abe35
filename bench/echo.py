"""The raw rate of unary calls: 300 bytes there and back at 64 callers, no protobuf, no work.

`python -m bench.echo serve` is the server; it prints its port and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any, TypeAlias

import grpc
import uvloop

_METHOD = "/bench.Echo/Echo"
_BODY = b"x" * 300
_CALLERS = 64
_WARM_UP_SECONDS = 0.5

Echo: TypeAlias = "grpc.aio.UnaryUnaryMultiCallable[Any, Any]"


async def calls_per_second(seconds: float) -> float:
    """Measure over so many seconds, with a server of its own."""
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.echo", "serve"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        port = int(await server.stdout.readline())
        client = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.echo", "call", str(port), str(seconds)),
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await client.communicate()
        return float(output)
    finally:
        server.stdin.close()
        await server.wait()


async def _call(port: int, seconds: float) -> float:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        echo: Echo = channel.unary_unary(_METHOD)
        await _calls(echo, _WARM_UP_SECONDS)
        start = time.perf_counter()
        return await _calls(echo, seconds) / (time.perf_counter() - start)


async def _calls(echo: Echo, seconds: float) -> int:
    end = time.perf_counter() + seconds
    done = 0

    async def caller() -> None:
        nonlocal done
        while time.perf_counter() < end:
            await echo(_BODY)
            done += 1

    await asyncio.gather(*(caller() for _ in range(_CALLERS)))
    return done


async def _serve() -> None:
    async def echo(request: bytes, _: object) -> bytes:
        return request

    server = grpc.aio.server()
    handler: Any = grpc.unary_unary_rpc_method_handler(echo)
    service, method = _METHOD.strip("/").split("/")
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(grace=None)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        uvloop.run(_serve())
    else:
        print(uvloop.run(_call(int(sys.argv[2]), float(sys.argv[3]))))
