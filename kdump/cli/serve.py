"""`kdump serve`."""

from __future__ import annotations

import os
import signal
import sys
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn

import click

from kdump.cli.options.common import (
    help_option,
    limits_of,
    max_batch_bytes_option,
    max_uncompressed_bytes_option,
    quiet_option,
)
from kdump.cli.options.engine import refuse
from kdump.cli.options.help import Command, option
from kdump.cli.options.partitions import topics_option
from kdump.cli.options.terminal import color_option
from kdump.cli.state import at_option, when
from kdump.exit_status import Exit
from kdump.finding import Finding, Severity
from kdump.render.commentary import say
from kdump.storage.file_source import OpenFailure
from kdump.words.numbers import counted, size, some_of

if TYPE_CHECKING:
    from kdump.serve.catalogue import Catalogue
    from kdump.serve.options import Address
    from kdump.serve.server import Traffic

_PORT = 9092
_LOCAL = ("localhost", "::1")
_ANY = ("", "0.0.0.0", "::")
_NAMED = 3  # topics that are not there


def _address(name: str, text: str) -> tuple[str, int]:
    """Return host and port; a port that is not said is Kafka's.

    Args:
        name: of the option.
        text: as the user wrote it: HOST, HOST:PORT, or [ADDRESS]:PORT of IPv6.

    Raises:
        click.BadParameter: it is none of these.
    """
    host, colon, port = text.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = text, str(_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 0xFFFF:
        raise click.BadParameter(f"'{text}': an address is HOST:PORT, as 127.0.0.1:{_PORT}", param_hint=name)
    return host, int(port)


@click.command(
    "serve",
    cls=Command,
    usual=("--topic", "--at", "--listen", "--advertise", "--replica", "--on-damage"),
    add_help_option=False,
    examples=(
        "kdump serve /data",
        "kdump serve /data --at yesterday --topic orders",
        "kdump serve /rescued/orders-0 --listen 127.0.0.1:19092",
    ),
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@topics_option("Serve only this topic")
@at_option
@option(
    "--replica",
    group="Selection",
    metavar="SOURCE",
    help="Of several copies of a partition, serve the one under this PATH.  [default: the best]",
)
@option(
    "--listen",
    group="What is done",
    metavar="HOST:PORT",
    default=f"127.0.0.1:{_PORT}",
    help=f"Where clients connect; port 0: one that is free.  [default: 127.0.0.1:{_PORT}]",
)
@option(
    "--advertise",
    group="What is done",
    metavar="HOST:PORT",
    help="What clients are told to connect to, behind a tunnel.  [default: --listen]",
)
@option(
    "--on-damage",
    group="What is done",
    type=click.Choice(["skip", "stop"]),
    default="skip",
    show_default=True,
    help="Pass over damaged batches, or end before the first one.",
)
@quiet_option
@color_option
@max_batch_bytes_option
@max_uncompressed_bytes_option
@help_option
def command(**given: Any) -> None:  # noqa: ANN401 (click hands over what the options above say)
    """Serve log files to any Kafka client, read-only.

    PATH is a log.dir or a partition directory, of one broker or of many; of several copies of a partition the best is
    served. No request changes a byte anywhere: who produces, creates or deletes is refused. There is no TLS and
    no password: without --listen only this machine connects. Ctrl-C ends it.
    """
    listen = _address("--listen", given["listen"])
    advertise = None if given["advertise"] is None else _address("--advertise", given["advertise"])
    if listen[0] in _ANY and advertise is None:
        raise click.UsageError(f"--listen {given['listen']} is no address to connect to: name one by --advertise.")
    moment = when("--at", given["at"])
    try:
        import kio.serial  # noqa: F401
    except ImportError as error:
        from kdump.words.install import lacks

        refuse(lacks("serve needs", "kio", error))
    from kdump.serve.options import Address, ServeOptions

    options = ServeOptions(
        listen=Address(*listen),
        advertise=None if advertise is None else Address(*advertise),
        at=moment,
        topics=frozenset(given["topics"]),
        replica=given["replica"],
        on_damage=given["on_damage"],
        limits=limits_of(given),
    )
    console = _Console(quiet=given["quiet"])
    catalogue = _catalogue([os.fspath(path) for path in given["paths"]], options, console)
    if not _is_local(listen[0]):
        console.tell(f"kdump: whoever reaches {options.listen} reads all of it: no TLS, no authentication")
    _run(catalogue, options, console)


def _catalogue(paths: list[str], options: Any, console: _Console) -> Catalogue:  # noqa: ANN401 (imported when used)
    """Look for partitions; end where a path is missing, or nothing is found."""
    from kdump.serve.catalogue import Catalogue, NoSuchReplicaError

    missing = unread = False

    def report(item: Finding | OpenFailure) -> None:
        nonlocal missing, unread
        if isinstance(item, OpenFailure):
            missing |= item.missing
            unread |= not item.missing
            console.tell(f"kdump: {item.sentence}")
        elif item.severity is not Severity.NOTE:
            console.tell(f"kdump: {item.file}: {item.code.name} {item.message}")

    try:
        found = Catalogue(paths, options, report, lambda said: console.tell(f"kdump: {said}"))
    except NoSuchReplicaError:
        console.tell(f"kdump: --replica {options.replica}: no partition of the PATHs lies there")
        sys.exit(Exit.NOT_FOUND)
    if missing:
        sys.exit(Exit.NOT_FOUND)
    lacking = sorted(options.topics - found.topics.keys())
    if lacking:
        console.tell(f"kdump: not here: topic {some_of(lacking, _NAMED)}")
    if not found.topics:
        console.tell("kdump: there is no partition to serve")
        sys.exit(Exit.INCOMPLETE if unread else Exit.NOT_FOUND)
    return found


def _run(catalogue: Catalogue, options: Any, console: _Console) -> NoReturn:  # noqa: ANN401 (as above)
    """Serve until a signal comes, and end by it."""
    import asyncio

    from kdump.serve.server import Server

    def ready(address: Address) -> None:
        partitions = sum(len(topic.partitions) for topic in catalogue.topics.values())
        what = f"{counted(len(catalogue.topics), 'topic')}, {counted(partitions, 'partition')}"
        for topic in catalogue.topics.values():
            if topic.lacking and not console.quiet:
                many = counted(topic.lacking, "partition")
                console.tell(f"kdump: {topic.name}: {many} below {topic.partitions[-1]} not here: no leader")
        sys.stdout.write(f"listening on {address}: {what}, read-only\n")
        sys.stdout.flush()

    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a client that goes away ends nothing
    server = Server(catalogue, options, lambda line: console.tell(f"kdump: {line}"))
    try:
        number = asyncio.run(server.run(ready, console.watch if console.is_watched else None))
    except OSError as error:
        console.tell(f"kdump: cannot listen on {options.listen}: {error.strerror or error}")
        sys.exit(Exit.INCOMPLETE)
    traffic = server.traffic
    if not console.quiet:
        console.tell(
            f"kdump: serve has ended: {counted(traffic.ever, 'connection')}, {size(traffic.served)} of records"
        )
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    sys.exit(128 + number)


def _is_local(host: str) -> bool:
    return host in _LOCAL or host.startswith("127.")


class _Console:
    """Lines on stderr; on a terminal one more below them says what goes on.

    Args:
        quiet: only lines.
    """

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self.is_watched = not quiet and sys.stderr is not None and sys.stderr.isatty()
        self._lock = Lock()  # partitions are read in threads, and say what they pass over
        self._is_drawn = False
        self._before = 0

    def tell(self, line: str) -> None:
        """Write a line."""
        with self._lock:
            self._hide()
            say(line)

    def watch(self, traffic: Traffic) -> None:
        """Show what goes on."""
        rate, self._before = traffic.served - self._before, traffic.served
        where = f"  {traffic.place}" if traffic.place else ""
        line = f"serve  {counted(traffic.clients, 'client')}  {size(rate)}/s  {size(traffic.served)}{where}"
        with self._lock:
            self._hide()
            width = os.get_terminal_size(sys.stderr.fileno()).columns - 1
            sys.stderr.write(line[:width])
            sys.stderr.flush()
            self._is_drawn = True

    def _hide(self) -> None:
        if self._is_drawn:
            self._is_drawn = False
            sys.stderr.write("\r\x1b[2K")
