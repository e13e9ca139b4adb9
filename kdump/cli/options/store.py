"""Tables that go to an object store: a run writes them on this machine, and they are put there at its end."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kdump.cli.options.engine import NotDoneExit, fail, refuse
from kdump.exit_status import Exit
from kdump.render.commentary import say
from kdump.storage.paths import is_remote

if TYPE_CHECKING:
    from collections.abc import Iterator

_HAVE_TABLES = frozenset((Exit.OK, Exit.WARNINGS, Exit.ERRORS, Exit.INCOMPLETE, Exit.ERRORS_AND_INCOMPLETE))


@contextmanager
def into_store(given: dict[str, Any], name: str) -> Iterator[None]:
    """Let an option that names a place in a store name a directory here; what comes to lie there is put into the store.

    Args:
        given: the values of the options.
        name: of the option.
    """
    url = given[name]
    if url is None or not is_remote(url):
        yield
        return
    if given["engine"] == "spark" or given["master"] is not None:
        refuse("tables go to a store from this machine: with Spark name a directory, or --engine local")
    from kdump.storage.staged_tree import StoreChangedError, staged

    given["engine"] = "local"
    try:
        with staged(url) as tree:
            given[name] = tree.directory
            try:
                yield
            except SystemExit as end:
                if end.code in _HAVE_TABLES and not isinstance(end, NotDoneExit):
                    tree.put()
                raise
            tree.put()
    except StoreChangedError as error:
        say(f"kdump: {error}")
        sys.exit(Exit.LOCKED)
    except OSError as error:
        fail(f"{error.filename or url}: {error.strerror or error}")
