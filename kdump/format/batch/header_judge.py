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
| a witness that neither explains; a name, or a hole that no cleaner made, is one | 6 |
| nothing, but it is seldom so | 1 |

A witness is what tells the value otherwise. Each knows a part of the log only, and is asked for that part in one place:

| witness | what it knows, and for which offsets | who asks it |
|-|-|-|
| the batches before and behind, in the logs beside too | values that ascend | `base_offset`, `epoch_order` |
| the names of the log and of the next one | where a log begins and ends | `base_offset.chain`, `base_offset.places` |
| the leader-epoch-checkpoint | epochs from its first entry to its newest, and where they begin | `epoch_order` |
| that of another copy | the same, up to its newest entry | `epoch_order` |
| snapshots, checkpoints, indexes | an end that the log has reached at least | `base_offset.chain` |
| the same bytes in another copy | where they lie between the same batches | `rescue.base_offset` |
| the same in an image | the same | `rescue.run_edges` |
| messages inside a wrapper of magic 0 | its own offset: a CRC covers them | `rescue.scanned_log` |
| a policy without compaction | that each offset was there; alone it moves nothing | `rescue.base_offset.behind_holes` |
| all batches of a log together | the name of the log; the first one alone does not | `storage.misplaced` |

Lengths and magics need no price: the CRC is right with one value of them (`framing`). The end of a transaction has
witnesses of its own (`kdump.broker.producer.proven_ends`). Neighbours need none either: values that lie one behind the
other ascend, or they are no explanation.

So a field stays as it is where one thing alone is against it, unless that is a witness that nothing explains. It is
wrong where it costs more than another value; what it was is known where no third value costs about as little. A batch
whose field is wrong, and of which nobody knows what it was, stays out with a row, or patch-header refuses.

An example: batches 0..3, 4..7, 72..75, 12..15. That 72 was 8, one bit away, costs 4. That 72 is right costs a bit of
the batch behind, 4, and a hole, 8..71, that no cleaner made, 6. So it was 8. Had nothing come behind it, and did no
file know the end, the hole would be all that is against it: it stays, and both is told.

Read on: the prices; `field_cost`, what one field costs by its bits; `ascending`, which adds up what a row of batches
costs with the values that each may have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

OFFSET_BITS, EPOCH_BITS = 64, 32
"""Bits of a base offset, and of a leader epoch."""
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


def field_cost(stored: int, value: int, width: int = OFFSET_BITS) -> int:
    """Return what it costs that a field has another value than the one that lies there.

    Args:
        stored, value: they, signed.
        width: of the field in bits.
    """
    bits = ((stored ^ value) % 2**width).bit_count()
    return 0 if not bits else ONE_BIT if bits == 1 else SEVERAL_BITS


def is_one_bit(stored: int, value: int, width: int = OFFSET_BITS) -> bool:
    """Tell whether one wrong bit explains that a field has another value than the one that lies there.

    Args:
        stored, value: they, signed.
        width: of the field in bits.
    """
    return field_cost(stored, value, width) == ONE_BIT


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
