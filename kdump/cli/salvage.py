"""`kdump salvage`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from kdump.cli.options.broker import topic_policies
from kdump.cli.options.common import (
    broker_option,
    config_option,
    fail_on_option,
    format_option,
    help_option,
    jobs_option,
    limits_of,
    max_batch_bytes_option,
    max_uncompressed_bytes_option,
    quiet_option,
    raw_option,
    settings_option,
)
from kdump.cli.options.complete import partitions
from kdump.cli.options.help import Command, option
from kdump.cli.options.partitions import partitions_of, topic_option
from kdump.cli.options.terminal import bar_of, color_option, fitter_of_stdout
from kdump.cli.show import show
from kdump.dispatch import takes
from kdump.exit_status import Exit, RunStatus
from kdump.format.java_values import MAX_INT
from kdump.render.commentary import say, write
from kdump.rescue.partition_salvage import SalvageOptions
from kdump.rescue.rows import losses_of, rows_of
from kdump.rescue.salvage import Wanted, salvage
from kdump.rescue.sources import ALONE, TOO, is_partition_name
from kdump.rows.salvaged import SalvageDone, SalvageRefused
from kdump.storage.directory import expanded
from kdump.storage.segment import SEGMENT_BYTES
from kdump.words.command import option_with
from kdump.words.escape import escape

if TYPE_CHECKING:
    from kdump.cli.show import Sink
    from kdump.format.checkpoint.checkpoint_file import EpochEntry
    from kdump.rescue.destination import Destination

_NO_HALF = ": nothing half-written has its final name; run the same command again to go on"
_NEW_DOUBTFUL = ", with a new file for --doubtful"


def _partition_name(_ctx: click.Context, _param: click.Parameter, value: Any) -> Any:  # noqa: ANN401 (as click has it)
    for one in value if isinstance(value, tuple) else (value,):
        if one is not None and not is_partition_name(one):
            raise click.BadParameter(f"'{one}' is not the name of a partition, TOPIC-N, as Kafka accepts it")
    return value


@click.command(
    "salvage",
    cls=Command,
    usual=("--to", "--topic", "--topic-partition", "--name", "--prefer", "--epochs", "--doubtful", "--format"),
    add_help_option=False,
    examples=(
        "kdump salvage /data/orders-0 --to out",
        "kdump salvage broker1/orders-0 broker2/orders-0 broker3/orders-0 --to out",
        "kdump salvage /mnt/disk1 /mnt/disk2 --to out --topic-partition orders-0",
    ),
)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@option(
    "--to", group="What is done", required=True, type=click.Path(), metavar="DIR",
    help="A directory for the results: new, empty, or of a former run, to go on or to add other partitions.",
)  # fmt: skip
@topic_option
@option(
    "--topic-partition", "topic_partitions", group="Selection", multiple=True, metavar="TOPIC-N",
    callback=_partition_name, shell_complete=partitions, help="Only this partition; may be given again.",
)  # fmt: skip
@option(
    "--name",
    group="Input",
    metavar="TOPIC-N",
    callback=_partition_name,
    help="The partition that the sources are copies of, where no name tells it.",
)
@option(
    "--prefer", group="Input", metavar="SOURCE", help="The source that counts where the sources contradict each other."
)
@option(
    "--epochs",
    group="Input",
    type=click.Path(),
    metavar="FILE",
    help="The leader-epoch-checkpoint of a replica known to be good.",
)
@option(
    "--for", "destination", group="What is done", type=click.Path(), metavar="LOGDIR",
    help="Make it fit the cluster of this log.dir, or of this metadata log: its topic id, its leader epochs.",
)  # fmt: skip
@option("--below-log-start", group="Input", is_flag=True, help="Keep batches below the log start offset too.")
@option(
    "--deleted", group="Input", type=click.Choice((TOO, ALONE)),
    help="Read logs too that a broker removes at its next start though no other file has them; or read them alone.",
)  # fmt: skip
@option(
    "--segment-bytes", group="What is done", type=click.IntRange(1024, MAX_INT), default=SEGMENT_BYTES,
    show_default=True, metavar="N",
    help="The largest log of the result, bytes.",
)  # fmt: skip
@option(
    "--doubtful",
    group="What is done",
    type=click.Path(),
    metavar="FILE",
    help="A new file for records that no CRC vouches for, as JSON.",
)
@broker_option
@config_option
@settings_option
@format_option
@quiet_option
@color_option
@jobs_option
@raw_option
@max_batch_bytes_option
@max_uncompressed_bytes_option
@fail_on_option
@help_option
def command(**given: Any) -> None:  # noqa: ANN401 (click hands over what the options above say)
    """Build a clean partition from damaged replicas.

    SOURCE is a partition directory, a log, a directory of runs that kdump carve has made, or a log.dir; several are
    copies of the same partitions. Sources are only read. The result, DIR/TOPIC-N, is what a broker loads without a
    repair; DIR/TOPIC-N.salvage.jsonl says what became of every offset.
    """
    given["sources"] = [path for path, _ in expanded(map(os.fspath, given["sources"]))]
    outcome = _SalvageStatus(given["fail_on"], compat=False)
    bar = bar_of(
        "salvage", quiet=given["quiet"], after=_NO_HALF if given["doubtful"] is None else _NO_HALF + _NEW_DOUBTFUL
    )
    options = SalvageOptions(
        segment_bytes=given["segment_bytes"],
        prefer=_preferred(given),
        epochs=_epochs(given["epochs"]),
        below_log_start=given["below_log_start"],
        limits=limits_of(given),
        progress=bar is not None,
        doubtful=_doubtful(given),
        deleted=given["deleted"],
        jobs=given["jobs"],
        policies=topic_policies(given, given["sources"]),
        destination=_destination(given["destination"]),
    )
    names = (*given["topic_partitions"], *partitions_of(given["topics"], given["sources"]))
    wanted = Wanted(given["to"], given["name"], names)
    show(salvage(given["sources"], wanted, options), _sink(given), outcome, bar, standing=outcome.whole)
    sys.exit(outcome.exit)


class _SalvageStatus(RunStatus):
    """The exit status: what was refused, or could not be written, comes before all that was found."""

    def __init__(self, fail_on: str, *, compat: bool) -> None:
        super().__init__(fail_on, compat=compat)
        self.whole: list[str] = []  # of each partition that was written, that it was
        self._special = Exit.OK

    @takes(SalvageRefused)
    def _refused(self, refused: SalvageRefused) -> None:
        self._special = max(self._special, Exit.FAILED if refused.failed else Exit.REFUSED)

    @takes(SalvageDone)
    def _done(self, done: SalvageDone) -> None:
        self.whole.append(f"{done.path} is salvaged, and whole")
        if done.has_losses:
            self.damaged()

    @property
    def exit(self) -> Exit:
        """The exit status, once all items were seen."""
        if not self.whole:
            self.nothing()
        return self._special or super().exit


def _preferred(given: dict[str, Any]) -> str | None:
    wanted: str | None = given["prefer"]
    if wanted is not None and os.path.normpath(wanted) not in map(os.path.normpath, given["sources"]):
        place = f"{os.path.normpath(wanted)}/"
        around = [one for one in given["sources"] if place.startswith(f"{os.path.normpath(one).rstrip('/')}/")]
        which = (
            f"it lies in one: {option_with('--prefer', around)}"
            if around
            else (f"name one as it was given: {option_with('--prefer', list(dict.fromkeys(given['sources'])))}")
        )
        raise click.UsageError(f"--prefer {escape(wanted)}: is none of the sources; {which}")
    return wanted


def _doubtful(given: dict[str, Any]) -> str | None:
    path: str | None = given["doubtful"]
    if path is None:
        return None
    if os.path.lexists(path):
        raise click.UsageError(f"--doubtful {path}: is there already; name a new file")
    where = os.path.join(os.path.realpath(given["to"]), "")
    if os.path.realpath(path).startswith(where):
        raise click.UsageError(f"--doubtful {path}: lies in --to {given['to']}; name a file elsewhere")
    return path


def _epochs(path: str | None) -> tuple[EpochEntry, ...] | None:
    if path is None:
        return None
    from kdump.format.kinds import FileKind
    from kdump.storage.open_files import OpenFileCache
    from kdump.storage.state_file import StateFile

    file = StateFile(path, FileKind.EPOCHS, OpenFileCache())
    if file.failure is not None:
        raise click.UsageError(f"--epochs: {file.failure.sentence}")
    if not file.is_read or file.findings or not file.epochs:
        raise click.UsageError(f"--epochs {path}: not a sound leader-epoch-checkpoint with entries")
    return tuple(file.epochs)


def _destination(path: str | None) -> Destination | None:
    """Return the cluster that results are for, None for that of the sources.

    Raises:
        click.UsageError: the path is no log directory, and no metadata log.
    """
    if path is None:
        return None
    from kdump.cli.options.destination import destination_of

    return destination_of(path)


def _sink(given: dict[str, Any]) -> Sink:
    if given["layout"] != "text":
        from kdump.render.salvage_rows import SalvageRows
        from kdump.rows.layout import LAYOUTS

        return SalvageRows(write, say, rows_of, LAYOUTS[given["layout"]])
    from kdump.render.text.salvage import SalvageText

    fit = fitter_of_stdout()
    return SalvageText(lambda text: write(fit(text)), say, losses_of, raw=given["raw"])
