"""A protoc plugin: messages, gRPC stubs and types for Python, importable from inside one package.

The generators are those of grpcio-tools and mypy-protobuf. They write `from baton.v1 import job_pb2`, which
resolves at the top level only; this plugin moves such imports, of the files that it generates, under the
package that the option `package=` names. What protoc itself ships (`google.protobuf`) stays where it is.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from google.protobuf import descriptor_pb2
from google.protobuf.compiler import plugin_pb2

IMPORT_OF_GENERATED_CODE = re.compile(r"^from ([\w.]+) import (\w+_pb2\b.*)$", re.MULTILINE)


def main() -> None:
    request = plugin_pb2.CodeGeneratorRequest.FromString(sys.stdin.buffer.read())
    sys.stdout.buffer.write(answer(request).SerializeToString())


def answer(request: plugin_pb2.CodeGeneratorRequest) -> plugin_pb2.CodeGeneratorResponse:
    response = plugin_pb2.CodeGeneratorResponse(
        supported_features=plugin_pb2.CodeGeneratorResponse.FEATURE_PROTO3_OPTIONAL
    )
    with tempfile.TemporaryDirectory() as directory:
        complaint = run_generators(request, directory=Path(directory))
        if complaint:
            response.error = complaint
        else:
            add_files(response, request, generated=Path(directory, "generated"))
    return response


def run_generators(request: plugin_pb2.CodeGeneratorRequest, *, directory: Path) -> str:
    """Generate into `directory`/generated; return what protoc complained about, or nothing."""
    generated = directory / "generated"
    generated.mkdir()
    descriptors = directory / "descriptors.binpb"
    descriptors.write_bytes(descriptor_pb2.FileDescriptorSet(file=request.proto_file).SerializeToString())
    scripts = Path(sys.executable).parent
    run = subprocess.run(
        [
            *(sys.executable, "-m", "grpc_tools.protoc"),
            f"--descriptor_set_in={descriptors}",
            f"--python_out={generated}",
            f"--grpc_python_out={generated}",
            f"--plugin=protoc-gen-mypy={scripts / 'protoc-gen-mypy'}",
            f"--mypy_out=quiet:{generated}",
            f"--plugin=protoc-gen-mypy_grpc={scripts / 'protoc-gen-mypy_grpc'}",
            f"--mypy_grpc_out=quiet:{generated}",
            *request.file_to_generate,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    return (run.stderr or f"protoc ended with {run.returncode}") if run.returncode else ""


def add_files(
    response: plugin_pb2.CodeGeneratorResponse,
    request: plugin_pb2.CodeGeneratorRequest,
    *,
    generated: Path,
) -> None:
    """Add each generated file with its imports moved, and an `__init__.py` for each folder."""
    package = dict(option.split("=", 1) for option in request.parameter.split(","))["package"]
    moved = {".".join(PurePosixPath(name).parent.parts) for name in request.file_to_generate}
    folders: set[PurePosixPath] = set()
    for path in sorted(generated.rglob("*.py*")):
        name = PurePosixPath(path.relative_to(generated).as_posix())
        folders.update(name.parents)
        response.file.add(name=str(name), content=moved_under(package, path.read_text(), moved))
    for folder in sorted(folders):
        response.file.add(name=str(folder / "__init__.py"), content="")


def moved_under(package: str, source: str, moved: Iterable[str]) -> str:
    def replacement(match: re.Match[str]) -> str:
        return f"from {package}.{match[1]} import {match[2]}" if match[1] in moved else match[0]

    return IMPORT_OF_GENERATED_CODE.sub(replacement, source)


if __name__ == "__main__":
    main()
