"""What a batch is likely to take."""

from __future__ import annotations

import math
from datetime import timedelta
from decimal import Decimal

import pytest
from pydantic import ValidationError

from job_api.operations.estimate_batch import BatchEstimate, EstimateBatch, ItemEstimate
from job_api.rpc.batch_messages import estimate_message
from job_api.settings import EstimateSettings
from shared.catalog import catalog as catalogs
from shared.domain.errors import UnknownJobType
from shared.domain.identity import JobType

RENDER, MATTING, SYNTHETIC = (JobType(name) for name in ("image_render", "image_matting", "synthetic"))


@pytest.fixture
def estimate_batch() -> EstimateBatch:
    told = {RENDER: ItemEstimate(Decimal("0.005"), timedelta(seconds=7.5))}
    return EstimateBatch(catalogs.load(), told)


async def test_what_settings_say_of_an_item_counts_for_each(estimate_batch: EstimateBatch) -> None:
    assert await estimate_batch(RENDER, 30) == BatchEstimate(30, Decimal("0.150"), timedelta(seconds=225))


async def test_a_media_item_takes_2_cents_and_3_seconds_where_nothing_is_set(
    estimate_batch: EstimateBatch,
) -> None:
    assert await estimate_batch(MATTING, 30) == BatchEstimate(30, Decimal("0.60"), timedelta(seconds=90))


async def test_of_other_items_nothing_is_known(estimate_batch: EstimateBatch) -> None:
    assert await estimate_batch(SYNTHETIC, 10_000) == BatchEstimate(10_000, Decimal(0), timedelta(0))


async def test_there_is_no_estimate_of_a_type_that_does_not_exist(estimate_batch: EstimateBatch) -> None:
    with pytest.raises(UnknownJobType):
        await estimate_batch("unheard_of", 1)


@pytest.mark.parametrize(("cost", "seconds"), [("1e12", 366 * 86_400.0), ("0", 0.0)])
async def test_whatever_settings_allow_can_be_told_of_the_largest_batch(cost: str, seconds: float) -> None:
    told = EstimateSettings(cost=Decimal(cost), seconds=seconds)
    item = ItemEstimate(told.cost, timedelta(seconds=told.seconds))
    estimate = await EstimateBatch(catalogs.load(), {SYNTHETIC: item})(SYNTHETIC, 10_000)

    message = estimate_message(estimate).estimate
    assert Decimal(message.cost) == told.cost * 10_000
    assert message.work_time.ToTimedelta() == timedelta(seconds=seconds) * 10_000


@pytest.mark.parametrize(
    ("cost", "seconds"),
    [("1e999", 1.0), ("NaN", 1.0), ("-1", 1.0), ("1", 1e300), ("1", math.inf), ("1", -1.0)],
)
def test_what_could_not_be_told_is_no_setting(cost: str, seconds: float) -> None:
    with pytest.raises(ValidationError):
        EstimateSettings(cost=Decimal(cost), seconds=seconds)
