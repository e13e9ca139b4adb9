"""Files of our own that have no name: what does not fit into memory lies there, and is gone when the process is.

Nobody else can open such a file, and nothing is left of it however the process ends. It lies where the system has
temporary files (TMPDIR), unless that is inside a log directory.
"""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

from kdump.storage.log_dir import is_log_dir

if TYPE_CHECKING:
    from typing import BinaryIO


def nameless_file() -> BinaryIO:
    """Return a new empty file, open for reading and writing, with the rights 0600.

    Raises:
        OSError: it cannot be made, or would lie in a log directory.
    """
    return tempfile.TemporaryFile(prefix="kdump-", dir=_place())


def _place() -> str:
    place = tempfile.gettempdir()
    at = os.path.realpath(place)
    while True:
        if is_log_dir(at):
            raise OSError(0, f"the directory for temporary files, {place}, lies in a log directory: set TMPDIR")
        at, below = os.path.dirname(at), at
        if at == below:
            return place
