"""The README's grpcurl and Python lines work as they are written there."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support import grpcurl_lines
from tests.support.grpcurl_lines import Grpcurl
from verification.stage import stack

README = (grpcurl_lines.REPOSITORY / "README.md").read_text()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with stack.running(tmp_path_factory.mktemp("readme") / "stack") as engine:
        yield engine.control


@pytest.mark.parametrize("grpcurl", grpcurl_lines.available(), ids=lambda each: each.name)
def test_the_grpcurl_lines_work_as_written(
    grpcurl: Grpcurl, address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The key of the lines is one that a reader may use once a day; each program here is a reader of its own.
    lines = {
        name: text.replace("readme-0001", f"readme-{grpcurl.name.replace(' ', '-')}")
        for name, text in grpcurl_lines.blocks().items()
        if grpcurl.describes or name != "describe"
    }
    path = grpcurl.on_path(tmp_path / "bin")

    printed = grpcurl_lines.run(lines, address=address, path=path, directory=tmp_path)

    with capsys.disabled():
        print(
            f"\n{len(lines)} blocks of the README's grpcurl lines ran with {grpcurl.name}: {grpcurl.program}"
        )
    assert {"baton.v1.JobControl", "grpc.health.v1.Health"} <= set(printed["list"].split())
    if grpcurl.describes:
        assert "string job_type = 1;" in printed["describe"]
    _created_got_and_watched(printed)
    _cancelled(printed)
    _artifacts_read(printed)
    [audited] = documents(printed["audit"])
    assert [each["action"] for each in audited["records"]] == ["job.create"]


def _created_got_and_watched(printed: Mapping[str, str]) -> None:
    [created] = documents(printed["create"])
    [got] = documents(printed["get"])
    updates = documents(printed["watch"])
    kinds = [each["event"]["kind"] for each in updates if "event" in each]

    assert created["job"]["state"] == "JOB_STATE_QUEUED"
    assert got["job"]["jobId"] == created["job"]["jobId"]
    assert (kinds[0], kinds[-1]) == ("JOB_EVENT_KIND_CREATED", "JOB_EVENT_KIND_SUCCEEDED")
    assert updates[-1]["ended"] == {"reason": "WATCH_END_REASON_FINISHED"}


def _cancelled(printed: Mapping[str, str]) -> None:
    created, cancelled = documents(printed["cancel"])

    assert cancelled["job"]["jobId"] == created["job"]["jobId"]
    assert cancelled["job"]["cancellation"]["requestTime"]


def _artifacts_read(printed: Mapping[str, str]) -> None:
    [listed] = documents(printed["artifacts"])
    contents = [json.loads(base64.b64decode(each["content"])) for each in listed["artifacts"]]

    assert [each["text"] for each in contents] == ["Two minutes."]


@pytest.mark.parametrize("client", ["client", "async client"])
def test_the_python_lines_work_as_written(address: str, client: str) -> None:
    [lines] = re.findall(rf"<!-- {client} -->\n```python\n(.*?)```\n", README, re.DOTALL)

    done = subprocess.run(
        [sys.executable, "-c", lines.replace(grpcurl_lines.README_ADDRESS, address)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "Two minutes."


def test_the_lines_about_batches_work_as_written(address: str, tmp_path: Path) -> None:
    [lines] = re.findall(r"<!-- batch lines -->\n```sh\n(.*?)```\n", README, re.DOTALL)
    (tmp_path / ".venv").symlink_to(grpcurl_lines.REPOSITORY / ".venv")

    done = subprocess.run(
        ["sh", "-c", lines],
        cwd=tmp_path,
        env={**os.environ, "BATON_CONTROL_ADDRESS": address},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    said = done.stdout.splitlines()
    settled = [line for line in said if "PARTIALLY_FAILED  200 succeeded, 1 failed" in line]
    assert len(settled) == 3, done.stdout + done.stderr  # the second watch begins at the first event
    assert any(re.search(r"item 201 failed +INPUT_BROKEN: ", line) for line in said)
    assert "items      200 succeeded, 1 failed" in said
    assert said[-1].endswith(" is EXPORTED: 200 succeeded, 1 failed")


def test_the_python_lines_about_batches_work_as_written(address: str) -> None:
    [lines] = re.findall(r"<!-- batch client -->\n```python\n(.*?)```\n", README, re.DOTALL)

    done = subprocess.run(
        [sys.executable, "-c", lines.replace(grpcurl_lines.README_ADDRESS, address)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    first, *rest = done.stdout.splitlines()
    assert first == "AWAITING_REVIEW 2 of 2"
    assert [line.split()[:2] for line in rest] == [["1", "SUCCEEDED"], ["2", "SUCCEEDED"]]


def documents(text: str) -> list[dict[str, Any]]:
    """Read JSON documents that stand one behind the other."""
    found, decoder = [], json.JSONDecoder()
    while text := text.lstrip():
        document, end = decoder.raw_decode(text)
        found.append(document)
        text = text[end:]
    return found
