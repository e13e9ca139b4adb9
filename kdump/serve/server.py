"""The server: connections, their bounds, and the bytes that go out.

What a client can make it hold is bounded, whatever it claims: how many connections there are, how large a request is,
how many large ones come in at once, and what was written and is not sent. Files are read a piece at a time, and never
ahead of who reads them. A client that sends what is no request, or one that is not answered, is closed, as a broker
closes it.
"""

from __future__ import annotations

import asyncio
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from kdump.serve.answers import ApiAnswers
from kdump.serve.options import Address
from kdump.serve.protocol import (
    API_VERSIONS,
    BadRequestError,
    api,
    names_by_key,
    read_header,
    read_request,
    response,
)
from kdump.serve.readable import ByteRange
from kdump.storage.file_source import FileSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.serve.catalogue import Catalogue
    from kdump.serve.options import ServeOptions
    from kdump.serve.protocol import Fields, Header, ResponsePieces

_MOST_CONNECTIONS = 1000
_MOST_REQUEST = 2 * 1024 * 1024  # bytes
_LARGE = 64 * 1024  # bytes of a request, over which only a few come in at once
_LARGE_AT_ONCE = 8
_IDLE = 600.0  # seconds without a request, as a broker's connections.max.idle.ms
_PATIENCE = 60.0  # seconds for the rest of a request, and for a client to take the next piece
_PIECE = 128 * 1024  # bytes of a file that are read at once
_SENT = 512 * 1024  # bytes that the kernel sends at once
_WAITING = 64 * 1024  # bytes that were written and not sent, above which nothing more is
_THREADS = 4  # that read partitions
_NOTHING_BACK = 0  # acks of a Produce that has no answer
_MOST_LINES = 20  # a second, about connections that are closed


class Traffic:
    """What the server does.

    Attributes:
        clients: that are connected.
        served: bytes of records that went out.
        place: what was read last, as TOPIC-N and offset; empty for nothing.
    """

    def __init__(self) -> None:
        self.clients = 0
        self.ever = 0  # clients that connected
        self.served = 0
        self.place = ""


def _end(ended: asyncio.Future[int], number: int) -> None:
    if not ended.done():
        ended.set_result(number)


class _ClosedError(Exception):
    """The connection ends here, and why."""


class Server:
    """Serves partitions.

    Args:
        catalogue: of them.
        options: what was asked for.
        tell: takes a line of the log.
    """

    def __init__(self, catalogue: Catalogue, options: ServeOptions, tell: Callable[[str], None]) -> None:
        self._catalogue = catalogue
        self._options = options
        self._tell = tell
        self.traffic = Traffic()
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)
        self._answers: ApiAnswers | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._second, self._lines = 0, 0

    async def run(self, ready: Callable[[Address], None], watch: Callable[[Traffic], None] | None) -> int:
        """Serve until a signal comes; return its number.

        Args:
            ready: is told where it listens, once it does.
            watch: is shown each second what it does; None where nobody looks.

        Raises:
            OSError: it cannot listen there.
        """
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[int] = loop.create_future()
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, _end, ended, number)
        listen = self._options.listen
        server = await asyncio.start_server(self._connected, listen.host, listen.port, limit=_LARGE)
        address = Address(listen.host, server.sockets[0].getsockname()[1])
        self._answers = ApiAnswers(self._catalogue, self._options.advertise or address)
        executor = ThreadPoolExecutor(_THREADS, "kdump-read")
        self._catalogue.use(executor)
        ready(address)
        try:
            while not ended.done():
                await asyncio.wait([ended], timeout=1.0)
                if watch is not None:
                    watch(self.traffic)
        finally:
            server.close()
            for task in self._connections:
                task.cancel()
            executor.shutdown(wait=False, cancel_futures=True)
        return ended.result()

    # --- a connection ---------------------------------------------------------------------------------------------
    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        peer = writer.get_extra_info("peername")
        who = str(Address(*peer[:2])) if peer else "a client"
        if self.traffic.clients >= _MOST_CONNECTIONS:
            self._closed(who, f"{_MOST_CONNECTIONS} clients are connected, and no more are served")
            writer.close()
            return
        self._connections.add(task)
        self.traffic.clients += 1
        self.traffic.ever += 1
        try:
            writer.transport.set_write_buffer_limits(high=_WAITING)
            while await self._exchange(reader, writer):
                pass
        except _ClosedError as error:
            self._closed(who, str(error))
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError):
            pass  # the client has gone, or says nothing more
        except asyncio.CancelledError:
            pass  # the server ends
        except Exception as error:  # others go on
            self._closed(who, f"a bug in kdump: {type(error).__name__}: {error}")
        finally:
            self._connections.discard(task)
            self.traffic.clients -= 1
            with suppress(OSError, RuntimeError):
                writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Read one request and answer it; return whether more can come."""
        try:
            size = int.from_bytes(await asyncio.wait_for(reader.readexactly(4), _IDLE), "big", signed=True)
        except asyncio.IncompleteReadError:
            return False
        if not 0 < size <= _MOST_REQUEST:
            raise _ClosedError(f"a request of {size} bytes; at most {_MOST_REQUEST} are read")
        if size > _LARGE:
            async with self._large:
                data = await asyncio.wait_for(reader.readexactly(size), _PATIENCE)
                header, request = self._parsed(data)
                del data
        else:
            header, request = self._parsed(await asyncio.wait_for(reader.readexactly(size), _PATIENCE))
        assert self._answers is not None
        if request is None:  # ApiVersions in a version of tomorrow
            fields = self._answers.versions(ErrorCode.unsupported_version)
            await self._send(writer, response(header, fields, version=0))
            return True
        answer = await self._answers.answer(header, request)
        name = names_by_key()[header.api_key]
        if answer is None:
            raise _ClosedError(f"{name} is not answered")
        if name == "produce" and request["acks"] == _NOTHING_BACK:
            raise _ClosedError("produce without an answer is refused")
        await self._send(writer, response(header, answer))
        if name == "fetch":
            self._note(answer)
        return True

    def _parsed(self, data: bytes) -> tuple[Header, Fields | None]:
        """The header and the fields of a request; None for an ApiVersions of an unknown version."""
        assert self._answers is not None
        try:
            header = read_header(data)
            if not self._answers.is_answered(header):
                raise _ClosedError(f"{names_by_key()[header.api_key]} is not answered")
            known = api(names_by_key()[header.api_key])
            if known.name == API_VERSIONS and not known.least <= header.version <= known.most:
                return header, None
            return header, read_request(header, data)
        except BadRequestError as error:
            raise _ClosedError(f"no request that is known: {error}") from None

    async def _send(self, writer: asyncio.StreamWriter, pieces: ResponsePieces) -> None:
        writer.write(pieces.size.to_bytes(4, "big"))
        for piece in pieces:
            if isinstance(piece, ByteRange):
                await self._send_range(writer, piece)
            else:
                writer.write(piece)
                await asyncio.wait_for(writer.drain(), _PATIENCE)

    async def _send_range(self, writer: asyncio.StreamWriter, piece: ByteRange) -> None:
        try:
            with piece.opened() as source:
                is_plain = isinstance(source, FileSource) and source.fileno() >= 0
                step = _SENT if is_plain else _PIECE
                for start in range(piece.start, piece.start + piece.size, step):
                    size = min(step, piece.start + piece.size - start)
                    # in a thread, so that no other client waits for the disk
                    data = await asyncio.to_thread(source.read_at, start, size)
                    if len(data) < size:
                        raise _ClosedError(f"{piece.path} has become shorter")
                    if is_plain:  # the kernel takes it from the file: no copy is held while a client is slow
                        del data
                        await self._send_file(writer, source, start, size)
                    else:
                        writer.write(data)
                        await asyncio.wait_for(writer.drain(), _PATIENCE)
                    self.traffic.served += size
        except ConnectionError:
            raise
        except TimeoutError:
            raise
        except OSError as error:
            raise _ClosedError(f"{piece.path} cannot be read: {error.strerror or error}") from None

    async def _send_file(self, writer: asyncio.StreamWriter, source: Any, start: int, size: int) -> None:  # noqa: ANN401
        sending = asyncio.get_running_loop().sendfile(writer.transport, source, start, size, fallback=False)
        try:
            sent = await asyncio.wait_for(sending, _PATIENCE)
        except asyncio.SendfileNotAvailableError:
            raise ConnectionError from None  # not one byte of it: the client has gone
        except RuntimeError:
            if not writer.transport.is_closing():
                raise
            raise ConnectionError from None  # it went before the first byte
        if sent < size:
            raise _ClosedError("a file has become shorter")

    # --- what is told ---------------------------------------------------------------------------------------------
    def _closed(self, who: str, why: str) -> None:
        second = int(time.monotonic())
        self._lines = self._lines + 1 if second == self._second else 1
        self._second = second
        if self._lines <= _MOST_LINES:
            self._tell(f"{who}: closed: {why}")

    def _note(self, answer: Fields) -> None:
        for topic in answer["responses"]:
            for one in topic["partitions"]:
                if one["records"]:
                    name = topic.get("topic")
                    if name is None:
                        found = self._catalogue.of_id(topic["topic_id"])
                        name = "" if found is None else found.name
                    self.traffic.place = f"{name}-{one['partition_index']} of {one['high_watermark']} offsets"
