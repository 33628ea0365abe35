"""The statements that find what a dispatcher delivers next; `dispatches` says what they promise."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

OWNERS_PER_STREAM_MAX = 32
"""Owners of a stream who get their turns in one pass; the others have them in the next ones."""

OWNERS_LOOKED_AT_MAX = 300
"""Owners of a stream among whom one pass looks for those: some 10 ms if none of them has a due row."""

PENDING = "o.event_type = 'job.dispatch' and o.state = 'pending'"
DELIVERED = "o.event_type = 'job.dispatch' and o.state = 'delivered'"


def stream_walk(rows: str) -> str:
    """Render the recursive query `stream`, which steps through the index from one stream to the next.

    Its only column is `stream` too, null in the last row.

    Args:
        rows: The condition on the outbox `o` by which a stream has rows; it fits one of the partial indexes.
    """
    return f"""
    (select o.stream from outbox o where {rows} order by o.stream limit 1)
    union all
    select (select o.stream from outbox o where {rows} and o.stream > s.stream order by o.stream limit 1)
    from stream s where s.stream is not null
"""


def _first_owner(stream_of: str, condition: str) -> str:
    return f"""(
        select o.owner from outbox o where {PENDING} and o.stream = {stream_of}.stream and {condition}
        order by o.owner limit 1)"""


def _any_due(of: str) -> str:
    """Whether an owner has a due row.

    Usually the first one is, or all are as urgent. Else each level of urgency is asked for its oldest one,
    and no other row is read.
    """
    rows = f"{PENDING} and o.stream = {of}.stream and o.owner = {of}.owner"
    return f"""(
        select o.available_time <= (select now from present) from outbox o where {rows}
        order by o.priority, o.available_time limit 1)
    or (select o.priority from outbox o where {rows} order by o.priority limit 1)
        < (select o.priority from outbox o where {rows} order by o.priority desc limit 1)
    and exists (
        with recursive level as (
            (select o.priority from outbox o where {rows} order by o.priority limit 1)
            union all
            select (
                select o.priority from outbox o where {rows} and o.priority > l.priority
                order by o.priority limit 1)
            from level l where l.priority is not null
        )
        select from level l where (
            select o.available_time <= (select now from present) from outbox o
            where {rows} and o.priority = l.priority order by o.available_time limit 1))"""


def _queue_of(stream: str) -> str:
    return f"split_part({stream}.stream, ':', 1)"


def _type_of(stream: str) -> str:
    return f"split_part({stream}.stream, ':', 2)"


def _below_limit(of: str) -> str:
    """Whether an owner may have more leases of a stream's type."""
    return f"""not exists (
        select from unnest(cast(:limited_types as text[]), cast(:at_once_per_owner as integer[]))
            as m(job_type, at_once)
        where m.job_type = {_type_of(of)} and m.at_once <= (
            select count(*) from leases l
            where l.limited and l.job_type = m.job_type and l.owner = {of}.owner))"""


_BAND = "split_part(stream, ':', 4)::integer"


# Steps through the index from one stream to the next, and in each from one owner to the next, so that the
# cost grows with streams and owners and not with the backlog. Behind the last owner comes the first one. An
# `offset 0` keeps the planner from looking an owner up anew wherever it is named. Streams that are paused are
# left out.
def _waiting(due_of: Callable[[str], str]) -> sa.TextClause:
    return sa.text(f"""
with recursive present as materialized (select engine_time() as now),
stream as ({stream_walk(PENDING)}),
served as (
    select * from unnest(cast(:streams as text[]), cast(:owners as text[])) as v(stream, owner)
),
owner as (
    select f.*, 1 as place, d.due, d.due::integer as found
    from (
        select s.stream, v.owner as served, coalesce(
            {_first_owner("s", "o.owner > coalesce(v.owner, '')")},
            {_first_owner("s", "o.owner <= v.owner")}) as owner
        from stream s left join served v using (stream)
        where s.stream is not null
            and {_queue_of("s")} not in (select name from pauses where kind = 'queue')
            and {_type_of("s")} not in (select name from pauses where kind = 'job_type') offset 0
    ) f cross join lateral (select {due_of("f")} as due offset 0) d
    union all
    select n.stream, n.served, n.owner, n.place, d.due, n.found_before + d.due::integer
    from (
        select w.stream, w.served, case when w.owner <= w.served
            then {_first_owner("w", "o.owner > w.owner and o.owner <= w.served")}
            else coalesce(
                {_first_owner("w", "o.owner > w.owner")}, {_first_owner("w", "o.owner <= w.served")}) end
            as owner, w.place + 1 as place, w.found as found_before
        from owner w where w.owner is not null
            and w.place < {OWNERS_LOOKED_AT_MAX} and w.found < {OWNERS_PER_STREAM_MAX} offset 0
    ) n cross join lateral (select {due_of("n")} as due offset 0) d
),
looked_at as (
    select stream, owner, place, due, place = max(place) over (partition by stream) as last
    from owner where owner is not null
)
select stream, array_agg(owner order by place) filter (where due or last) as owners
from looked_at group by stream
""")


WAITING = _waiting(_any_due)

# An owner at its limit is passed over like one who has nothing due.
WAITING_LIMITED = _waiting(lambda of: f"({_any_due(of)}) and {_below_limit(of)}")

_ROWS_OF_OWNER = f"""
    select o.outbox_id, o.priority, o.available_time from outbox o
    where {PENDING} and o.stream = w.stream and o.owner = w.owner and o.available_time <= engine_time()
    order by o.priority, o.available_time, o.outbox_id limit"""

_TURN = """row_number() over (
        partition by w.stream, w.owner order by o.priority, o.available_time, o.outbox_id)"""

_LOCK = """
select o.outbox_id, o.stream, o.owner, o.aggregate_id as job_id, o.priority, o.attempt,
    o.payload ->> 'job_type' as job_type, o.payload ->> 'queue' as queue
from outbox o join chosen using (outbox_id)
where o.state = 'pending'
order by chosen.rank for update of o skip locked
"""

# Owners take turns in the order given; within an owner the more urgent goes first, then the oldest due.
LOCK_DUE = sa.text(f"""
with wanted as (
    select * from unnest(cast(:streams as text[]), cast(:owners as text[]), cast(:rooms as integer[]))
        with ordinality as w(stream, owner, room, place)
),
candidate as (
    select o.outbox_id, w.stream, w.room, w.place, {_TURN} as turn
    from wanted w cross join lateral ({_ROWS_OF_OWNER} w.room) o
),
ranked as (
    select outbox_id, room, row_number() over (partition by stream order by turn, place) as rank
    from candidate
),
chosen as (
    select outbox_id, rank from ranked where rank <= room
)
{_LOCK}""")

# The same for streams whose types have limits. What these leave of a type, and of an owner in it, goes to the
# more urgent streams first.
LOCK_DUE_LIMITED = sa.text(f"""
with wanted as (
    select * from unnest(
        cast(:streams as text[]), cast(:owners as text[]), cast(:rooms as integer[]),
        cast(:job_types as text[]), cast(:type_rooms as integer[]), cast(:owner_rooms as integer[]))
        with ordinality as w(stream, owner, room, job_type, type_room, owner_room, place)
),
candidate as (
    select o.outbox_id, w.*, {_BAND} as band, {_TURN} as turn
    from wanted w cross join lateral ({_ROWS_OF_OWNER} least(w.room, w.type_room, w.owner_room)) o
),
in_owner as (
    select c.*, row_number() over (partition by job_type, owner order by band, turn) as number
    from candidate c
),
in_stream as (
    select o.*, row_number() over (partition by stream order by turn, place) as rank
    from in_owner o where (number <= owner_room) is not false
),
in_type as (
    select outbox_id, rank, type_room,
        row_number() over (partition by job_type order by band, rank) as number_of_type
    from in_stream where rank <= room
),
chosen as (
    select outbox_id, rank from in_type where (number_of_type <= type_room) is not false
)
{_LOCK}""")
