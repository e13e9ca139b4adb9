"""The decoders, which are not trusted, behind a process that may die.

Payloads and schemas are whatever somebody wrote, and the libraries that read them are C and C++: fastavro 1.13 follows
a schema that contains itself until the stack ends, and five bytes make it a list of twenty million nulls. So there are
two walls. For Avro a kernel of ours proves lengths, indexes, numbers, depth and the number of items before fastavro
sees a byte: that alone also keeps back values that fastavro makes of bytes that no writer writes. And whatever a
library does, compiling a schema included, it does in a child with limits of memory and CPU: there Protobuf has no
proof of ours, and nobody knows the next mistake. One child serves many records, a question for some thousands of
them, so it costs little. Where it dies, the payloads that it has not answered are asked one at a time of the next one:
the payload that ends it has a finding, the others are decoded. A schema under which it was at a limit or dead
`MOST_ENDS` times is not used again: a log full of bombs would take days.

The child is a fresh interpreter, no fork: it has no files of this process, nor its threads.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import socket
import struct
import subprocess
import sys
from array import array
from contextlib import suppress
from typing import TYPE_CHECKING

from kdump.decode.payload.child import HEAD, LIMIT, MADE, MISSING, PAYLOADS, SCHEMA, UNFIT
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MOST_ENDS = 50
_PATIENCE = 300.0  # seconds without a byte of an answer: its CPU is limited long before
_AT_ONCE = 4096  # payloads of a question
_BYTES_AT_ONCE = 1024 * 1024
_PIECE = 1 << 20
_START = "import sys; sys.path[:] = sys.argv[1:]; from kdump.decode.payload.child import run; run()"


class Undecoded(TupleValue):
    """Why a payload is not decoded."""

    why: str
    is_schema: bool = False  # the schema is to blame


class SchemaText(TupleValue):
    """A schema with all that it needs."""

    kind: str  # AVRO, PROTOBUF or JSON
    text: str
    references: tuple[tuple[str, str], ...] = ()  # name and text, each after what it needs itself


Answer = bytes | Undecoded  # JSON, or why there is none


class _EndedError(Exception):
    """The child has ended; the message says how."""


class MissingLibraryError(Exception):
    """A library is not installed; the message is its name."""


class DecoderProcess:
    """Decodes payloads in a child, which is started when it is needed, and again when it has ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._to: socket.socket | None = None  # its standard input
        self._owner = 0  # process that started it: a fork has no part in it
        self._numbers: dict[SchemaText, int] = {}  # of the schemas that the child has
        self._unreadable: dict[SchemaText, str] = {}
        self._ends: dict[SchemaText, int] = {}

    def decode(self, schema: SchemaText, indexes: tuple[int, ...], payloads: Sequence[bytes]) -> list[Answer]:
        """Return what becomes of each payload.

        Args:
            schema: that all have.
            indexes: of the message, for Protobuf.
            payloads: the bytes.

        Raises:
            MissingLibraryError: what is needed is not installed.
        """
        answers: list[Answer] = []
        while len(answers) < len(payloads):
            answers += self._some(schema, indexes, payloads, len(answers))
        return answers

    def close(self) -> None:
        """End the child."""
        process, self._process = self._process, None
        self._numbers.clear()
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        if self._to is not None:
            self._to.close()
            self._to = None
        process.communicate()

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self.close()

    # --- payloads ---------------------------------------------------------------------------------------------
    def _some(
        self, schema: SchemaText, indexes: tuple[int, ...], payloads: Sequence[bytes], first: int
    ) -> list[Answer]:
        """What becomes of the payloads from a place on, of one at least."""
        why = self._unreadable.get(schema)
        if why is None and self._ends.get(schema, 0) >= MOST_ENDS:
            why = f"payloads have ended the decoder, or met its limits, {MOST_ENDS} times: it is not used again"
        if why is not None:
            return [Undecoded(why, is_schema=True)] * (len(payloads) - first)
        last, size = first, 0
        while last < len(payloads) and last - first < _AT_ONCE and (last == first or size < _BYTES_AT_ONCE):
            size += len(payloads[last])
            last += 1
        try:
            number = self._number(schema)
        except _EndedError as error:
            self._unreadable[schema] = str(error)
            return []
        if number is None:
            return []
        answers: list[Answer] = []
        try:
            for hows, parts in self._ask(number, indexes, payloads[first:last]):
                if hows.count(MADE) == len(hows):
                    answers += parts
                else:
                    answers += [self._counted(schema, hows[k : k + 1], part) for k, part in enumerate(parts)]
        except _EndedError as error:
            if answers:
                self._ends[schema] = self._ends.get(schema, 0) + 1
                return answers
            if last - first == 1:
                return [self._counted(schema, LIMIT, str(error).encode())]
            for at in range(first, last):  # one of them did it
                answers += self._alone(schema, indexes, payloads[at])
        return answers

    def _alone(self, schema: SchemaText, indexes: tuple[int, ...], payload: bytes) -> list[Answer]:
        answers: list[Answer] = []
        while not answers:
            answers = self._some(schema, indexes, [payload], 0)
        return answers

    def _counted(self, schema: SchemaText, how: bytes, made: bytes) -> Answer:
        if how == MADE:
            return made
        if how == LIMIT:
            self._ends[schema] = self._ends.get(schema, 0) + 1
        return Undecoded(made.decode("utf-8", "replace"))

    def _ask(
        self, number: int, indexes: tuple[int, ...], payloads: Sequence[bytes]
    ) -> Iterator[tuple[bytes, list[bytes]]]:
        """Ask about payloads; yield kinds of answers, and the answers."""
        numbers = array("I", [*indexes, *map(len, payloads)]).tobytes()
        body = b"".join((struct.pack("<II", len(payloads), len(indexes)), numbers, *payloads))
        self._write(PAYLOADS, number, body)
        left = len(payloads)
        while left:
            (count,) = struct.unpack("<I", self._read(4))
            hows = self._read(count)
            sizes = array("I", self._read(4 * count))
            made, parts, at = self._read(sum(sizes)), [], 0
            for size in sizes:
                parts.append(made[at : at + size])
                at += size
            yield hows, parts
            left -= count

    # --- schemas ----------------------------------------------------------------------------------------------
    def _number(self, schema: SchemaText) -> int | None:
        """The number by which the child has a schema, which it gets where it has it not; None for an unreadable one."""
        if self._process is None or self._owner != os.getpid():
            self._start()
        if schema not in self._numbers:
            number = len(self._numbers)
            text = {"type": schema.kind, "text": schema.text, "references": schema.references}
            self._write(SCHEMA, number, json.dumps(text).encode())
            how = self._read(1)
            (size,) = struct.unpack("<I", self._read(4))
            why = self._read(size).decode("utf-8", "replace")
            if how == MISSING:
                raise MissingLibraryError(why)
            if how in (UNFIT, LIMIT):
                self._unreadable[schema] = why
                return None
            self._numbers[schema] = number
        return self._numbers[schema]

    # --- the process ------------------------------------------------------------------------------------------
    def _start(self) -> None:
        self._numbers.clear()
        self._owner = os.getpid()
        self._to, its = socket.socketpair()  # and no pipe: a child that has died must not end this process by SIGPIPE
        with its:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _START, *sys.path],
                stdin=its.fileno(),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
            )
        with suppress(OSError, AttributeError):  # no such size for this user, or on this system
            fcntl.fcntl(self._process.stdout, fcntl.F_SETPIPE_SZ, _PIECE)  # type: ignore[arg-type]

    def _write(self, kind: bytes, number: int, body: bytes) -> None:
        assert self._to is not None
        left = memoryview(HEAD.pack(kind, number, len(body)) + body)
        try:
            while left:
                left = left[self._to.send(left, getattr(socket, "MSG_NOSIGNAL", 0)) :]
        except ConnectionError:
            raise _EndedError(self._ended()) from None

    def _read(self, size: int) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        source, found, left = self._process.stdout.fileno(), [], size
        while left:
            ready, _, _ = select.select([source], [], [], _PATIENCE)
            piece = os.read(source, min(left, _PIECE)) if ready else b""
            if not piece:
                raise _EndedError(self._ended())
            found.append(piece)
            left -= len(piece)
        return b"".join(found)

    def _ended(self) -> str:
        """How the child has ended; it has, then."""
        assert self._process is not None
        process, self._process = self._process, None
        self._numbers.clear()
        if self._to is not None:
            self._to.close()
            self._to = None
        try:
            status = process.wait(1.0)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        process.communicate()
        return f"its decoder was ended by signal {-status}" if status < 0 else f"its decoder ended with status {status}"
