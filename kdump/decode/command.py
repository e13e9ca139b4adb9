"""Payloads decoded by a program of the user: one line of Base64 in, one line of JSON out.

Strategy: one process for the run, one question at a time, so that an answer can never be taken for that of another
record. What the program does is not trusted: it has `PATIENCE` for each answer, an answer has a largest size, and
when it dies or falls silent the rest is shown without it. It is started without a shell, and always waited for. Who
uses this must have SIGPIPE ignored: the program may end at any time.
"""

from __future__ import annotations

import base64
import os
import select
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

from kdump.decode.decoded import Decoded
from kdump.decode.formats import Form, one_line
from kdump.finding import Code, Finding
from kdump.item import FileStart

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

PATIENCE = 10.0  # seconds for an answer
LONGEST = 16 * 1024 * 1024  # bytes of an answer
_GRACE = 2.0  # seconds to end after its stdin is closed
_STEP = 65536
_SHOWN = 60  # characters of an answer that is none


class _OverError(Exception):
    """No more is asked of the program; the message says why."""


class DecoderCommand:
    """Decodes payloads by a program, keys by a form.

    Args:
        arguments: program and arguments.
        key_form: how keys are written: utf8, hex ...
        report: takes why a payload is shown as it is, and its offset.
        patience: seconds for an answer.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        key_form: str,
        report: Callable[[str, int], None],
        patience: float = PATIENCE,
    ) -> None:
        self._arguments = arguments
        self._key, self._value = Form(key_form), Form("utf8")
        self._report = report
        self._patience = patience
        self._process: subprocess.Popen[bytes] | None = None
        self._is_over = False
        self._latest: tuple[int, bytes | None, bytes | None, Decoded] | None = None

    def __call__(self, offset: int, key: bytes | None, value: bytes | None) -> Decoded:
        """Decode a record; a null payload is not asked about, and none twice when its line has to be made again."""
        if self._latest is None or self._latest[:3] != (offset, key, value):
            self._latest = offset, key, value, self._decode(offset, key, value)
        return self._latest[3]

    def _decode(self, offset: int, key: bytes | None, value: bytes | None) -> Decoded:
        shown_key = None if key is None else self._key.text(key)
        if value is None:
            return Decoded(shown_key, None)
        answer = None if self._is_over else self._ask(offset, value)
        made = None if answer is None else one_line(answer)
        if made is None:
            if answer is not None:
                what = answer[:_SHOWN].decode("utf-8", "replace")
                self._report(f"its answer is not JSON: {what}" if what.strip() else "its answer is empty", offset)
            return Decoded(shown_key, self._value.text(value))
        return Decoded(shown_key, made, payload_object=Form("json").object(made))

    def close(self) -> None:
        """Let the program end, or end it, and wait for it."""
        self._is_over = True
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, offset: int, value: bytes) -> bytes | None:
        """Return the line that the program answers; None when it is over with it."""
        try:
            if self._process is None:
                self._start()
            return self._exchange(base64.b64encode(value) + b"\n")
        except _OverError as error:
            why = str(error)
        except BrokenPipeError:
            why = self._how_it_ended()
        except OSError as error:
            why = f"it cannot be run: {error.strerror}"
        self._report(f"{why}; from here on payloads are shown undecoded", offset)
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
        self.close()
        return None

    def _start(self) -> None:
        self._process = subprocess.Popen(
            self._arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, restore_signals=True, bufsize=0
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        for pipe in (self._process.stdin, self._process.stdout):
            os.set_blocking(pipe.fileno(), False)

    def _exchange(self, question: bytes) -> bytes:
        """Write the question and read the answer, whichever the program does first."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        to, source = self._process.stdin.fileno(), self._process.stdout.fileno()
        left, answer = memoryview(question), bytearray()
        end = time.monotonic() + self._patience
        poll = select.poll()
        poll.register(source, select.POLLIN)
        poll.register(to, select.POLLOUT)
        while b"\n" not in answer[-_STEP:]:
            ready = dict(poll.poll(max(0.0, end - time.monotonic()) * 1000))
            if not ready:
                raise _OverError(f"it did not answer within {self._patience:g} seconds")
            if to in ready:
                left = left[os.write(to, left) :]
                if not left:
                    poll.unregister(to)
            if source in ready:
                part = os.read(source, _STEP)
                if not part:
                    raise _OverError(self._how_it_ended())
                answer += part
                if len(answer) > LONGEST:
                    raise _OverError(f"its answer is longer than {LONGEST} bytes")
        line, _, rest = bytes(answer).partition(b"\n")
        if left or rest:
            raise _OverError("it does not answer one line with one line")
        return line

    def _how_it_ended(self) -> str:
        assert self._process is not None
        try:
            status = self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            return "it closed its output"
        return f"it was ended by signal {-status}" if status < 0 else f"it ended with status {status}"


class PayloadCommand:
    """The decoder command of a run, and what it could not decode, as findings about the file in hand.

    Args:
        arguments: program and arguments.
        key_form: how keys are written.
    """

    def __init__(self, arguments: list[str], key_form: str | None) -> None:
        self._path = ""
        self._found: list[Finding] = []
        self._handlers: dict[signal.Signals, Any] = {}
        self.decode = DecoderCommand(arguments, key_form or "utf8", self._report)

    def __enter__(self) -> Self:
        """Take signals as exceptions: nothing may end this process before the program is ended."""
        self._handlers = {
            signal.SIGPIPE: signal.signal(signal.SIGPIPE, signal.SIG_IGN),
            signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        }
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        """End the program, then die of the signal that there was."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # one is enough
        self.decode.close()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        if kind is not None and issubclass(kind, BrokenPipeError | KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGPIPE if issubclass(kind, BrokenPipeError) else signal.SIGINT)

    def sees(self, item: object) -> None:
        """Take note of the file that is begun."""
        if isinstance(item, FileStart):
            self._path = item.path

    def findings(self) -> list[Finding]:
        """Return what was found since the last time."""
        found, self._found = self._found, []
        return found

    def _report(self, why: str, offset: int) -> None:
        self._found.append(Finding(Code.V04, self._path, offset=offset, values={"why": why}))
