"""The nine media job types, as drills: synthetic work in their queues until a deployment does the real one.

So a batch, a group of executors and an estimate can be tried before there is anything that renders.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from shared.catalog.definition import Domain, JobDefinition
from shared.catalog.queues import MEDIA_QUEUES
from shared.catalog.synthetic import SyntheticInput, SyntheticOutput
from shared.domain.identity import JobType, QueueName

_WORK: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "script_generate": ("Script", "writing a script"),
        "image_matting": ("Matting", "cutting subjects out of images"),
        "image_render": ("Image", "rendering images"),
        "video_keyframe": ("Key frames", "rendering key frames"),
        "video_shot": ("Shots", "rendering shots"),
        "video_compose": ("Video", "composing shots to a video"),
        "delivery_zip": ("Archive", "packing files into an archive"),
        "export_package": ("Export", "exporting a package"),
        "media_verify": ("Verification", "verifying media files"),
    }
)
"""What each would do, with its label."""


def _drill(job_type: str) -> JobDefinition:
    label, work = _WORK[job_type]
    return JobDefinition(
        job_type=JobType(job_type),
        label=f"{label} (drill)",
        description=f"A drill: does made-to-order work in place of {work}.",
        domain=Domain.MEDIA,
        queue=QueueName(job_type),
        input_model=SyntheticInput,
        output_model=SyntheticOutput,
        projector="synthetic",
    )


DEFINITIONS = tuple(_drill(job_type) for job_types in MEDIA_QUEUES.values() for job_type in job_types)
"""One for each media queue, which is named after it."""
