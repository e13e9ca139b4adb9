"""Which value a header field has that no CRC covers: the cheapest explanation of what lies on the disk.

A base offset and a leader epoch lie outside the CRC of their batch. Where something contradicts one, each value that
it may have is an explanation: it holds if certain things are damaged, or older than the batch. What has to be wrong has
a price, and the explanation that costs least is believed:

| what is wrong then | costs |
|-|-|
| one bit of the field | 4 |
| several bits of the field | 5 |
| a witness, by one bit of it | 4 |
| a witness, because it is older than the batch; once for all batches that it contradicts then | 5 |
| a witness that neither explains | 6 |
| nothing, but it is seldom so | 1 |

A witness is what tells the value otherwise: an entry of a checkpoint or of an index, the name of a log, the same bytes
in another copy. Neighbours need no price: values that lie one behind the other ascend, or they are no explanation.

So a field stays as it is where one thing alone is against it, unless that is a witness that nothing explains. It is
wrong where it costs more than another value; what it was is known where no third value costs about as little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

ONE_BIT, SEVERAL_BITS = 4, 5
"""What it costs that a field is wrong, by one bit or by more."""
DAMAGED, INVENTED = 4, 6
"""What it costs that a witness is wrong, by one bit or by more."""
SELDOM = 1
"""What it costs that something is in order, but seldom so."""
OLDER = DAMAGED + SELDOM
"""What it costs that a witness is older than the batch: once, however many batches it contradicts then."""
NEAR = 2
"""Values whose costs differ by less are told apart by nothing."""


def bits_wrong(stored: int, value: int, width: int = 64) -> int:
    """Return what it costs that a field has another value than the one that lies there.

    Args:
        stored, value: they, signed.
        width: of the field in bits.
    """
    bits = ((stored ^ value) % 2**width).bit_count()
    return 0 if not bits else ONE_BIT if bits == 1 else SEVERAL_BITS


def one_bit_from(stored: int, width: int) -> Iterator[int]:
    """Yield the numbers, none of them negative, of which one wrong bit makes the one that lies in a field.

    Args:
        stored: that lies there, signed.
        width: of the field in bits.
    """
    for bit in range(width):
        other = stored % 2**width ^ 1 << bit
        if other < 2 ** (width - 1):
            yield other


def one_bit_of_text(number: int) -> Iterator[int]:
    """Yield each number that one wrong bit in a digit makes of another one."""
    text = str(number)
    for at, digit in enumerate(text):
        for bit in range(4):  # the others make no digit of a digit
            other = chr(ord(digit) ^ 1 << bit)
            if other.isdecimal():
                yield int(text[:at] + other + text[at + 1 :])


def ascending(costs: Sequence[dict[int, int]], low: int | None, high: int | None) -> list[dict[int, int]]:
    """Return what each value of each field costs together with the best values of all others.

    Args:
        costs: for each field the values that it may have, and what each costs by itself.
        low, high: what no value is below, or above; None where nobody knows.

    Returns:
        for each field the values that the order leaves it, and the least that all cost then.
    """
    bounded = [{value: cost for value, cost in sorted(one.items()) if _is_between(low, value, high)} for one in costs]
    forth = list(_least(bounded))
    back = [*_least([{-value: one[value] for value in reversed(one)} for one in reversed(bounded)])][::-1]
    return [
        {value: there[value] + here[-value] - one[value] for value in one if value in there and -value in here}
        for one, there, here in zip(bounded, forth, back, strict=True)
    ]


def _is_between(low: int | None, value: int, high: int | None) -> bool:
    return (low is None or low <= value) and (high is None or value <= high)


def _least(costs: Iterable[dict[int, int]]) -> Iterator[dict[int, int]]:
    """Yield what each value costs with the cheapest ascending values before it; the values of each ascend."""
    before: dict[int, int] | None = None
    for one in costs:
        found: dict[int, int] = {}
        least, values = None if before is not None else 0, [] if before is None else [*before.items()]
        at = 0
        for value, cost in one.items():
            while at < len(values) and values[at][0] <= value:
                least = values[at][1] if least is None else min(least, values[at][1])
                at += 1
            if least is not None:
                found[value] = least + cost
        yield found
        before = found
