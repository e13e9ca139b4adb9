"""Rows that kdump shows: a type of row is declared once, with what each of its columns holds.

JSON, tables of Arrow, Spark and CSV, tokens in place of names (--redact), and the manual are made from that. A column
is named by its attribute: `last_offset` is `lastOffset` wherever a user sees it.

    class Lag(Row, name="lag"):
        '''How far a group is behind.'''

        group: str = column(Kind.NAME, "the group")
        last_offset: int | None = column(Kind.OFFSET, "the last one that was read; null for none")
        path: str  # of the directory: a field that no user is shown
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform

from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Kind(Enum):
    """What a column holds: by it a sink knows how to write and to align a value, and what of it may be seen."""

    NUMBER = auto()
    """An integer, or a number with a fraction."""
    COUNT = auto()
    SIZE = auto()
    """In bytes."""
    POSITION = auto()
    """In a file, bytes."""
    OFFSET = auto()
    """Absolute, of a record."""
    TIME = auto()
    """ms since the epoch."""
    INT = auto()
    """An integer of 32 bits."""
    FLAG = auto()
    WORD = auto()
    """One of few words of Kafka or kdump."""
    CODE = auto()
    """Of a finding."""
    VALUE = auto()
    """A number, or a text for people."""
    TEXT = auto()
    """A sentence for people; names may stand in it."""
    COMMAND = auto()
    """To paste into a shell."""
    PATH = auto()
    TOPIC = auto()
    PARTITION = auto()
    """TOPIC-N."""
    NAME = auto()
    """Of a group, a transactional id, what a client has given."""
    DATA = auto()
    """Bytes of a record."""
    HEADERS = auto()
    """Of a record: keys, and values that are bytes."""
    ROW = auto()
    """Another row."""
    JSON = auto()
    """Any value that JSON has."""


_NUMBERS = (Kind.NUMBER, Kind.COUNT, Kind.SIZE, Kind.POSITION, Kind.OFFSET, Kind.TIME, Kind.INT)
_UNSET = object()
_T = TypeVar("_T")


class Column:
    """One column of a type of row.

    Args:
        kind: what it holds.
        doc: the same in words, for the manual: a phrase, without a full stop.
        of: the type of the rows that it holds; None for other kinds.
        words: the only values of a WORD; none where they are not told.
        key: its name where that is not the one of the attribute; empty otherwise.
        default: of the field.

    Attributes:
        is_list: it holds several.
        is_optional: it may be null.
    """

    __slots__ = ("attribute", "default", "doc", "is_list", "is_optional", "key", "kind", "of", "words")

    def __init__(
        self, kind: Kind, doc: str, of: type[Row] | None, words: Sequence[str], key: str, default: object
    ) -> None:
        self.kind = kind
        self.doc = doc
        self.of = of
        self.words = words
        self.key = key  # its name, as users see it
        self.default = default
        self.attribute = ""  # of the row
        self.is_list = self.is_optional = False

    def __repr__(self) -> str:
        return f"Column({self.key}: {self.kind.name})"

    @property
    def has_default(self) -> bool:
        """Whether a row can be made without it."""
        return self.default is not _UNSET

    @property
    def is_number(self) -> bool:
        """Whether it holds one number."""
        return self.kind in _NUMBERS and not self.is_list

    @property
    def is_number_list(self) -> bool:
        """Whether it holds numbers."""
        return self.kind in _NUMBERS and self.is_list

    def named(self, attribute: str, annotation: str) -> None:
        """Take the name of the attribute, and whether its type has several values, or none."""
        self.attribute = attribute
        self.key = self.key or camel(attribute)
        self.is_list = annotation.startswith(("tuple[", "list[", "Sequence[", "frozenset["))
        self.is_optional = annotation.endswith("| None")


def camel(attribute: str) -> str:
    """Return the name that users see: `last_offset` is lastOffset."""
    first, *others = attribute.rstrip("_").split("_")
    return first + "".join(map(str.capitalize, others))


def column(
    kind: Kind,
    doc: str,
    *,
    of: type[Row] | None = None,
    words: Sequence[str] = (),
    key: str = "",
    default: Any = _UNSET,  # noqa: ANN401
) -> Any:  # noqa: ANN401 (it stands where the value of a field stands)
    """Declare a column: see `Column`."""
    return Column(kind, doc, of, words, key, default)


def computed(
    kind: Kind, doc: str, *, of: type[Row] | None = None, words: Sequence[str] = (), key: str = ""
) -> Callable[[Callable[[Any], _T]], _T]:
    """Declare that a method of a row is a column, and a property: see `Column`."""
    made = Column(kind, doc, of, words, key, _UNSET)
    return lambda method: _Computed(made, method)  # type: ignore[return-value]  # what an instance has in its place


class _Computed:
    """A property that is a column."""

    def __init__(self, made: Column, method: Callable[[Any], Any]) -> None:
        self.made = made
        self.method = method


@dataclass_transform(frozen_default=True, field_specifiers=(column,))
class Row(Value):
    """A row that users see."""

    row_name: ClassVar[str] = ""  # its `type` in JSON; empty for a row within another one
    is_list_of_values: ClassVar[bool] = False  # of a row within another one: its values stand there without their keys
    columns: ClassVar[tuple[Column, ...]] = ()  # in the order in which they are shown; fields without one are not shown

    def __init_subclass__(cls, name: str = "") -> None:
        """Take the columns from the body of the class."""
        super().__init_subclass__()
        cls.row_name = name
        found = []
        for attribute, value in list(vars(cls).items()):
            if isinstance(value, _Computed):
                value.made.named(attribute, value.method.__annotations__["return"])
                found.append(value.made)
                setattr(cls, attribute, property(value.method))
            elif isinstance(value, Column):
                value.named(attribute, cls.__annotations__[attribute])
                found.append(value)
                if value.default is _UNSET:
                    delattr(cls, attribute)
                else:
                    setattr(cls, attribute, value.default)
        cls.columns = tuple(found)
