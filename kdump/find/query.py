"""The questions of users: offsets and times as text."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from enum import Enum

from kdump.format.java_values import MAX_LONG
from kdump.value import Value, pattern
from kdump.words.times import moment as shown_moment

_LONGEST = len(str(MAX_LONG))
_RELATIVE = r"now(?:([+-])([0-9]+)(ms|s|m|h|d))?"
_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY = 86_400_000  # ms
_BELOW_MICROSECOND = r"[.,][0-9]{6}[0-9]*[1-9]"  # digits that Python does not keep
_SHOWN = 60  # characters shown of an invalid question
_DAYS = {"today": 0, "yesterday": 1}  # before this one
_DAY_AND_TIME = pattern(rf"({'|'.join(_DAYS)})[ T]+(.+)")
_OF_DAY = pattern(r"[0-9]{1,2}:[0-9]{2}(:.*|[Zz+-].*)?", re.ASCII)
_SHORT_HOUR = pattern(r"([0-9-]+[ T])([0-9]:.*)", re.ASCII)
_SHORT_ZONE = pattern(r"[+-][0-9]{2}", re.ASCII)
_AGO = pattern(r"-?([0-9]+) ?(ms|s|m|h|d|seconds?|minutes?|hours?|days?)( ago)?")
_SMALL = 10_000  # ms: nobody means a date by it
_DATES = range(19700101, 21000101)  # without dashes
_SECONDS = range(10**9, 10**10)  # 2001 to 2286, where somebody gives seconds
_LIKELY = range(10**11, 10**13)  # ms, 1973 to 2286: other numbers may be seconds, or a date without its dashes


class Ask(Enum):
    """The kind of a question."""

    OFFSET = "offset"
    TIME = "time"
    EARLIEST = "earliest"
    LATEST = "latest"
    MAX = "max"


class Query(Value):
    """One question."""

    text: str  # as the user wrote it
    ask: Ask  # what is asked
    number: int = 0  # an absolute offset, or ms since the epoch; 0 for the others
    assumed: str = ""  # what was assumed in reading it, for the user; empty when nothing was


_WORDS = {one.value: one for one in (Ask.EARLIEST, Ask.LATEST)}


def offset_query(text: str) -> Query:
    """Read a question about an offset: a number, earliest or latest.

    Raises:
        ValueError: it is none; the message says what one is.
    """
    word = text.strip()
    if word in _WORDS:
        return Query(text, _WORDS[word])
    if word.isascii() and word.isdigit() and len(word) <= _LONGEST and (number := int(word)) <= MAX_LONG:
        return Query(text, Ask.OFFSET, number)
    raise ValueError(f"'{_shown(word)}' is not a valid offset: a number from 0 on, earliest or latest")


def time_query(text: str, now: int | None = None) -> Query:
    """Read a question about a time: earliest, latest, max, or what `moment_query` reads.

    Args:
        text: as the user wrote it.
        now: ms since the epoch; None for the clock.

    Raises:
        ValueError: it is none; the message says what one is.
    """
    asked = _WORDS.get(text.strip(), Ask.MAX if text.strip() == "max" else None)
    return _moment(text, now, ", now-2h, earliest, latest or max") if asked is None else Query(text, asked)


def moment_query(text: str, now: int | None = None, other: str = "") -> Query:
    """Read a time, as every command reads one.

    ms since the epoch; ISO 8601, a date alone is its 00:00; 10:00, the last such time before now; today and yesterday,
    their 00:00, or with a time of day; now, now-2h, now+1d. UTC unless a zone is written.

    Args:
        text: as the user wrote it.
        now: ms since the epoch; None for the clock.
        other: what else may stand there, for the message.

    Raises:
        ValueError: it is none; the message says what one is.
    """
    return _moment(text, now, f" or now-2h{other}")


def _moment(text: str, now: int | None, more: str) -> Query:
    word = text.strip()
    if re.fullmatch(r"-?[0-9]{1,19}", word, re.ASCII) and abs(int(word)) <= MAX_LONG:
        return Query(text, Ask.TIME, int(word), _doubt(int(word)))
    now = time.time_ns() // 1_000_000 if now is None else now
    relative = re.fullmatch(_RELATIVE, word)
    if relative:
        return _relative(text, now, *relative.groups())
    try:
        if word in _DAYS:
            return _taken(text, _day(word, now))
        if _OF_DAY.fullmatch(word):
            return _taken(text, _last(word, now))
        on_day = _DAY_AND_TIME.fullmatch(word)
        if on_day:
            return _taken(text, _day(on_day[1], now) + _time_of_day(on_day[2]))
        moment = datetime.fromisoformat(_SHORT_HOUR.sub(r"\g<1>0\2", word))
    except ValueError:
        raise ValueError(
            f"'{_shown(word)}' is not a valid time: ms since the epoch, 2026-11-21, 2026-11-21T14:03:00Z, 10:00, "
            f"yesterday{more}{_meant(word)}"
        ) from None
    has_zone = moment.tzinfo is not None
    number = _whole_ms(moment if has_zone else moment.replace(tzinfo=UTC), word)
    if not has_zone:
        return _taken(text, number, zone="UTC, no zone is given")
    is_odd = _SHORT_ZONE.fullmatch(word[-3:])  # 00-04 may be meant as 00:04
    return _taken(text, number) if is_odd else Query(text, Ask.TIME, number)


def _meant(word: str) -> str:
    """Say how to write what is often written otherwise; empty for what nobody can guess."""
    ago = _AGO.fullmatch(word)
    if ago:
        unit = ago[2] if ago[2] in _UNITS else ago[2][0]
        return f"; did you mean now-{ago[1]}{unit}?"
    if re.fullmatch(r"@[0-9]{10}", word, re.ASCII):
        return f"; did you mean {word[1:]}000?"
    if re.match(r"[0-9]{4}/[0-9]{2}/[0-9]{2}", word, re.ASCII):
        return f"; did you mean {word.replace('/', '-')}?"
    if re.search(r"[0-9] ?(Z|GMT|UTC)$", word, re.IGNORECASE):
        return "; for UTC write Z right behind the time: 10:00Z"
    if re.search(r"[0-9] ?([A-Za-z]{3,5}|[A-Za-z]+/[A-Za-z_]+)$", word):
        return "; a zone is written as its hours, right behind the time: 10:00+01:00"
    return ""


def _whole_ms(moment: datetime, word: str) -> int:
    """Ms of a moment; at or after it: the next whole one."""
    microseconds = (moment - _EPOCH) // _MICROSECOND + bool(re.search(_BELOW_MICROSECOND, word))
    return -(-microseconds // 1000)


def _day(word: str, now: int) -> int:
    """Return 00:00 of today or yesterday."""
    return (now // _DAY - _DAYS[word]) * _DAY


def _last(word: str, now: int) -> int:
    """Return the last moment before now that has a time of day.

    Raises:
        ValueError: it is no time of day.
    """
    return now - 1 - (now - 1 - _time_of_day(word)) % _DAY


def _time_of_day(word: str) -> int:
    """Return how far a time of day lies behind 00:00 UTC, ms.

    Raises:
        ValueError: it is no time of day.
    """
    if not _OF_DAY.fullmatch(word):
        raise ValueError
    hours = word if word[2:3] == ":" else f"0{word}"
    here = datetime.fromisoformat(f"{_EPOCH:%Y-%m-%d}T{hours}")
    return _whole_ms(here if here.tzinfo is not None else here.replace(tzinfo=UTC), word)


def _taken(text: str, number: int, zone: str = "UTC") -> Query:
    """A time that is not written as one moment for all: what was taken for it is said."""
    shown = shown_moment(number)
    said = f"{number} ms since the epoch" if shown is None else f"{shown} ({zone})"
    return Query(text, Ask.TIME, number, f"{text.strip()} is {said}")


def _relative(text: str, now: int, sign: str | None, number: str | None, unit: str) -> Query:
    """Read now, now-2h, now+1d."""
    if number and len(number) > _LONGEST:
        raise _too_far(text)
    away = int(number) * _UNITS[unit] if number else 0
    moment = now - away if sign == "-" else now + away
    if abs(moment) > MAX_LONG:
        raise _too_far(text)
    return _taken(text, moment)


def _too_far(text: str) -> ValueError:
    return ValueError(f"'{_shown(text.strip())}' is too far away")


def _doubt(number: int) -> str:
    """Say how a number was read that may have been meant as something else than ms; empty for others."""
    if 0 <= number < _SMALL or number in _LIKELY:
        return ""
    shown = shown_moment(number)
    return f"{number} is read as ms since the epoch" + (f": {shown}" if shown else "") + _other_form(number)


def _other_form(number: int) -> str:
    """Say how to write what a number may have been meant as; empty for others."""
    if number in _SECONDS:
        return f"; seconds? write {number}000"
    with suppress(ValueError):  # eight digits that are no date
        if number in _DATES:
            return f"; a date? write {date.fromisoformat(str(number))}"
    return ""


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
