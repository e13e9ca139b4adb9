"""Faults at the calls of a writer: it is killed, a call fails, the disk is full."""

from __future__ import annotations

import errno
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tests.support.repair_trees import Counting, Faulty

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.storage.fsops import FileOps


def killed_at(number: int, run: Callable[[FileOps], object], *, after: bool) -> None:
    """Run in a child that is killed at one call.

    Args:
        number: of the call, from 0.
        run: gets what makes the calls.
        after: the call is made first.
    """

    def kill(function: Callable[..., Any], *args: Any, **named: Any) -> None:
        with suppress(OSError):
            if after:
                function(*args, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if not child:
        with suppress(BaseException):
            run(Faulty(number, kill))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL, number


def fails(number: int) -> Callable[..., Any]:
    """What makes a call fail.

    Args:
        number: errno.
    """

    def fault(*_args: Any, **_named: Any) -> None:
        raise OSError(number, os.strerror(number))

    return fault


class Full(Counting):
    """A disk that takes no more bytes and no more names from a call on.

    Args:
        number: of that call, from 0.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def call(self, name: str, function: Callable[..., Any], *args: object, **named: object) -> Any:
        if len(self.names) >= self._number and name in ("open", "mkdir", "pwrite"):
            self.names.append(name)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().call(name, function, *args, **named)
