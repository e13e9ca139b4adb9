"""The questions of users: offsets and times as text."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from enum import Enum

from kdump.value import Value

_MAX_LONG = 2**63 - 1
_LONGEST = len(str(_MAX_LONG))
_RELATIVE = r"now(?:([+-])([0-9]+)(ms|s|m|h|d))?"
_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_BELOW_MICROSECOND = r"[.,][0-9]{6}[0-9]*[1-9]"  # digits that Python does not keep
_SHOWN = 60  # characters shown of an invalid question
_SMALL = 10_000  # ms: nobody means a date by it
_LIKELY = range(10**11, 10**13)  # ms, 1973 to 2286: other numbers may be seconds, or a date without its dashes


class Ask(Enum):
    """The kind of a question."""

    OFFSET = "offset"
    TIME = "time"
    EARLIEST = "earliest"
    LATEST = "latest"
    MAX = "max"


class Query(Value):
    """One question.

    Args:
        text: as the user wrote it.
        ask: what is asked.
        number: an absolute offset, or ms since the epoch; 0 for the others.
        assumed: what was assumed in reading it, for the user; empty when nothing was.
    """

    text: str
    ask: Ask
    number: int = 0
    assumed: str = ""


_WORDS = {one.value: one for one in (Ask.EARLIEST, Ask.LATEST)}


def offset_query(text: str) -> Query:
    """Read a question about an offset: a number, earliest or latest.

    Raises:
        ValueError: it is none; the message says what one is.
    """
    word = text.strip()
    if word in _WORDS:
        return Query(text, _WORDS[word])
    if word.isascii() and word.isdigit() and len(word) <= _LONGEST and (number := int(word)) <= _MAX_LONG:
        return Query(text, Ask.OFFSET, number)
    raise ValueError(f"'{_shown(word)}' is not a valid offset: a number from 0 on, earliest or latest")


def time_query(text: str, now: int | None = None) -> Query:
    """Read a question about a time: ms since the epoch, ISO 8601, now-2h, earliest, latest or max.

    Args:
        text: as the user wrote it; ISO 8601 without a zone means UTC.
        now: ms since the epoch; None for the clock.

    Raises:
        ValueError: it is none; the message says what one is.
    """
    word = text.strip()
    if word in _WORDS:
        return Query(text, _WORDS[word])
    if word == "max":
        return Query(text, Ask.MAX)
    if re.fullmatch(r"-?[0-9]{1,19}", word, re.ASCII) and abs(int(word)) <= _MAX_LONG:
        return Query(text, Ask.TIME, int(word), _doubt(int(word)))
    relative = re.fullmatch(_RELATIVE, word)
    if relative:
        now = time.time_ns() // 1_000_000 if now is None else now
        return _relative(text, now, *relative.groups())
    try:
        moment = datetime.fromisoformat(word)
    except ValueError:
        raise ValueError(
            f"'{_shown(word)}' is not a valid time: ms since the epoch, ISO 8601 as 2026-11-21T14:03:00Z, now-2h, "
            "earliest, latest, max"
        ) from None
    assumed = ""
    if moment.tzinfo is None:
        moment, assumed = moment.replace(tzinfo=UTC), "no zone is given: UTC is taken"
    microseconds = (moment - _EPOCH) // _MICROSECOND + bool(re.search(_BELOW_MICROSECOND, word))
    return Query(text, Ask.TIME, -(-microseconds // 1000), assumed)  # at or after: the next whole one


def _relative(text: str, now: int, sign: str | None, number: str | None, unit: str) -> Query:
    """Read now, now-2h, now+1d."""
    if number and len(number) > _LONGEST:
        raise _too_far(text)
    away = int(number) * _UNITS[unit] if number else 0
    moment = now - away if sign == "-" else now + away
    if abs(moment) > _MAX_LONG:
        raise _too_far(text)
    return Query(text, Ask.TIME, moment, f"{text.strip()} is {moment}")


def _too_far(text: str) -> ValueError:
    return ValueError(f"'{_shown(text.strip())}' is too far away")


def _doubt(number: int) -> str:
    """Say how a number was read that may have been meant as something else than ms; empty for others."""
    if 0 <= number < _SMALL or number in _LIKELY:
        return ""
    try:
        moment = _EPOCH + timedelta(milliseconds=number)
    except OverflowError:
        return f"{number} is read as ms since the epoch"
    return f"{number} is read as ms since the epoch: {moment.isoformat(timespec='milliseconds')[: -len('+00:00')]}Z"


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
