"""The options of the commands that Spark can run, and the session behind them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from kdump.cli.options.help import option, options
from kdump.exit_status import Exit
from kdump.render.commentary import say
from kdump.storage.paths import is_remote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from kdump.export.origin import Root

engine_options = options(
    option(
        "--engine",
        group="Limits and processes",
        type=click.Choice(["auto", "local", "spark"]),
        default="auto",
        show_default=True,
        help="What does the work; auto is local unless --master is given or a path is not local.",
    ),
    option(
        "--master", group="Limits and processes", metavar="URL", help="Run on Spark: the URL of a cluster, or local[N]."
    ),
    option(
        "--conf",
        group="Limits and processes",
        multiple=True,
        metavar="K=V",
        help="A setting of Spark, as spark.executor.memory=4g; may be given again.",
    ),
    option(
        "--java-home",
        group="Limits and processes",
        metavar="DIR",
        help="The Java for Spark; without it JAVA_HOME, PATH, or that of pip.",
    ),
)
MANIFESTS = (".csv", ".json", ".jsonl")


def roots_of(paths: Sequence[str]) -> Sequence[Root] | None:
    """Return what manifests among the paths stand for; None where there is none among them.

    Args:
        paths: as the user wrote them.
    """
    if not any(path.lower().endswith(MANIFESTS) for path in paths):
        return None
    from kdump.export.origin import ManifestError, read_roots

    try:
        return read_roots(paths)
    except ManifestError as error:
        refuse(str(error))


def session(given: dict[str, Any], paths: Sequence[str]) -> SparkSession | None:
    """Return the session of Spark; None where the work is done here. Ends with one line where Spark cannot be had.

    Args:
        given: the values of the options.
        paths: that the work is about.
    """
    engine, master = given["engine"], given["master"]
    if engine == "local" or (engine == "auto" and master is None and not any(is_remote(path) for path in paths)):
        if master is not None:
            raise click.BadParameter("is for Spark, and --engine local says not to use it", param_hint="--master")
        if given["conf"]:
            raise click.BadParameter("is for Spark: name --engine spark, or --master", param_hint="--conf")
        return None
    conf = _conf(given["conf"])
    if master is not None and conf.get("spark.master", master) != master:
        raise click.BadParameter("names another master than --master", param_hint="--conf spark.master")
    from kdump.spark import session as start
    from kdump.spark.errors import SparkFailedError, SparkMissingError

    try:
        return start(master, given["java_home"], conf)
    except SparkMissingError as error:
        refuse(str(error))
    except SparkFailedError as error:
        fail(str(error))


def _conf(texts: Sequence[str]) -> dict[str, str]:
    """The settings of Spark that are given; the last one of a name counts."""
    found = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not (sign and name.startswith("spark.")):
            raise click.BadParameter(f"'{text}' is no setting of Spark, as spark.NAME=VALUE", param_hint="--conf")
        found[name] = value
    return found


def demand_outside(directory: str, paths: Sequence[str], option: str) -> None:
    """Refuse to write into what is read, or where a broker looks.

    Args:
        directory: where files are to be written.
        paths: that are read.
        option: that names the directory.

    Raises:
        click.BadParameter: it has no name, as an unset variable.
        RefusedError: it lies in one of the paths, in a partition directory or in a log.dir.
    """
    from kdump.storage.outputs import refuse_inside_sources

    if not directory:
        raise click.BadParameter("is empty: name a directory", param_hint=option)
    refuse_inside_sources(directory, paths, option)


def demand_arrow() -> None:
    """End with one line where the package that writes tables is missing."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        from kdump.words.install import lacks

        refuse(lacks("tables need", "pyarrow", error))


def refuse(sentence: str) -> NoReturn:
    """End as after wrong use, with one line."""
    say(f"kdump: {sentence}")
    sys.exit(Exit.USAGE)


class NotDoneExit(SystemExit):
    """The end of a run whose work could not be done: what it has made counts for nothing."""


def fail(sentence: str) -> NoReturn:
    """End because the work could not be done, with one line."""
    say(f"kdump: {sentence}")
    raise NotDoneExit(Exit.INCOMPLETE)
