"""Times as stored: whole microseconds since 1970 in UTC, so that rows sort by number and lose nothing."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime.fromtimestamp(0, UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_micros(moment: datetime) -> int:
    """`moment` has its zone; a naive one raises TypeError."""
    return (moment - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    return _EPOCH + micros * _MICROSECOND


def from_optional(micros: int | None) -> datetime | None:
    return None if micros is None else from_micros(micros)
