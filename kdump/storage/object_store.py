"""Files in an object store: listed by the store, read by ranges, never copied.

`s3://`, `gs://` and `abfs://` go through pyarrow, which has them built in; all other schemes through fsspec. Who may
read is the business of the environment, as for any client of the store: no option takes a secret.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from kdump.storage.file_source import FileShrankError, FileSource, first_line
from kdump.value import Value
from kdump.words.install import to_install

if TYPE_CHECKING:
    from collections.abc import Iterator

_BUILT_IN = ("s3", "gs", "gcs", "abfs", "abfss")
_SAME = {"s3a": "s3", "s3n": "s3"}
_AT_ONCE = 2  # seconds for which what was listed is what is there
_PART = 64 * 1024 * 1024  # bytes that are handed over at once: a list is one part, and never there in part
_AHEAD = 8 * 1024 * 1024  # bytes of one range: fewer cost more round trips than they save

_just_listed: dict[str, tuple[float, list[RemoteEntry]]] = {}  # when, and what


@lru_cache(maxsize=64)
def _store(root: str) -> Any:  # noqa: ANN401 (pyarrow has no types)
    """The file system of a scheme and its host or bucket."""
    from pyarrow import fs

    scheme = root.partition("://")[0]
    if scheme in _BUILT_IN:
        return fs.FileSystem.from_uri(root)[0]
    import fsspec

    return fs.PyFileSystem(fs.FSSpecHandler(fsspec.core.url_to_fs(root)[0]))


def _located(path: str) -> tuple[Any, str]:
    """File system and path in it."""
    scheme, _, rest = path.partition("://")
    scheme = _SAME.get(scheme, scheme)
    rest = rest.rstrip("/")
    try:
        store = _store(f"{scheme}://{rest.partition('/')[0]}")
    except ImportError as error:
        raise OSError(0, f"{scheme}:// needs {_what_is_missing(error)}", path) from None
    except (ValueError, KeyError) as error:
        raise OSError(0, f"{scheme}:// is not known: {error}", path) from None
    return store, rest if scheme in _BUILT_IN else store.handler.fs._strip_protocol(path)


def _what_is_missing(error: ImportError) -> str:
    """What an import lacks, and how to install what kdump knows; fsspec says it of its drivers in words of its own."""
    cause = error if error.name is not None else error.__cause__
    name = getattr(cause, "name", None)
    if name is None:
        return f"more than is installed: {error}"
    command = to_install(name)
    how = "install that package beside kdump" if command is None else command
    return f"the Python package {name}, which is not installed: {how}"


def info(path: str) -> tuple[bool, bool, int]:
    """Return whether there is a directory, whether there is a file, and its size in bytes.

    Args:
        path: URL.
    """
    from pyarrow import fs

    try:
        store, inside = _located(path)
        found = store.get_file_info(inside)
    except OSError:
        return False, False, 0
    return found.type is fs.FileType.Directory, found.type is fs.FileType.File, found.size or 0


Version = tuple[int, str]
"""What tells one version of a file from the next: its size, and its time and etag as far as the store tells them."""
_OF_VERSION = ("etag", "last-modified")


def version_of(path: str) -> Version | None:
    """Return what tells one version of a file from the next; one request.

    Args:
        path: URL.

    Returns:
        No time where there is no such file; None where the store does not say.
    """
    from pyarrow import fs

    try:
        store, inside = _located(path)
        if isinstance(store, fs.S3FileSystem):
            with store.open_input_file(inside) as file:
                told = {_text(name).lower(): _text(text) for name, text in file.metadata().items()}
                return file.size(), " ".join(told.get(name, "") for name in _OF_VERSION)
        found = store.get_file_info(inside)
        if found.type is not fs.FileType.NotFound:
            return None if found.mtime_ns is None else (found.size or 0, str(found.mtime_ns))
    except FileNotFoundError:
        pass
    except OSError:
        return None
    return 0, ""


def _text(one: str | bytes) -> str:
    """Names and texts of metadata: pyarrow has had them as either."""
    return one.decode("utf-8", "replace") if isinstance(one, bytes) else one


# --- what is written ----------------------------------------------------------------------------------------
def files_below(directory: str) -> list[str]:
    """Return the files below a directory, sorted, by their paths inside it; none where there is no such directory.

    Args:
        directory: URL.

    Raises:
        OSError: it cannot be listed.
    """
    from pyarrow import fs

    store, top = _located(directory)
    with _said(directory):
        found = store.get_file_info(fs.FileSelector(top, allow_not_found=True, recursive=True))
    return sorted(one.path[len(top) + 1 :] for one in found if one.type is fs.FileType.File)


def read_whole(path: str) -> bytes:
    """Return what a file has.

    Args:
        path: URL.

    Raises:
        OSError: it cannot be read.
    """
    store, inside = _located(path)
    with _said(path), store.open_input_stream(inside) as stream:
        return bytes(stream.read())


@contextmanager
def opened_file(path: str) -> Iterator[Any]:
    """Give a file for readers that pyarrow has, as those of Parquet.

    Args:
        path: URL.

    Raises:
        OSError: it cannot be opened.
    """
    store, inside = _located(path)
    with _said(path), store.open_input_file(inside) as file:
        yield file


def put_file(path: str, content: str | bytes) -> None:
    """Put a file into a store, in the place of what has its name: it is there as a whole, or as it was.

    Args:
        path: URL.
        content: bytes, or the path of a file that has them.

    Raises:
        OSError: it cannot be written.
    """
    store, inside = _located(path)
    with _said(path):
        stream = store.open_output_stream(inside)
        try:
            if isinstance(content, bytes):
                stream.write(content)
            else:
                with Path(content).open("rb") as file:
                    while data := file.read(_PART):
                        stream.write(data)
        except BaseException:
            _leave_open(stream)
            raise
        stream.close()


def _leave_open(stream: Any) -> None:  # noqa: ANN401 (pyarrow has no types)
    """Let nobody ever close a file of a store: that would publish it as far as it was written, and so would its end.

    What was uploaded of it the store keeps as an upload that was not completed, as after a kill: nobody sees it.
    """
    import ctypes  # few writes fail

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(stream))


def remove_file(path: str) -> None:
    """Remove a file from a store; nothing where it is not there.

    Args:
        path: URL.

    Raises:
        OSError: it cannot be removed.
    """
    store, inside = _located(path)
    with _said(path), suppress(FileNotFoundError):
        store.delete_file(inside)


@contextmanager
def _said(path: str) -> Iterator[None]:
    """Let an error have one line, and name the file."""
    try:
        yield
    except OSError as error:
        raise type(error)(error.errno, first_line(error), path) from None


def is_directory(path: str) -> bool:
    """Tell whether there is a directory; its listing is kept for who asks for that next, at once.

    Args:
        path: URL.
    """
    try:
        found = list(entries(path))
    except OSError:
        found = []
    if found:
        _just_listed.clear()  # nobody has asked for these next
        _just_listed[path.rstrip("/")] = monotonic(), found
        return True
    return info(path)[0]


class RemoteEntry(Value):
    """An entry of a store's listing, with the attributes of `os.DirEntry`."""

    name: str
    is_directory: bool
    status: RemoteStatus

    def is_symlink(self) -> bool:
        """Stores have no links."""
        return False

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Tell whether it is a file."""
        return not self.is_directory

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Tell whether it is a directory."""
        return self.is_directory

    def stat(self, *, follow_symlinks: bool = True) -> RemoteStatus:
        """Return size and time."""
        return self.status


class RemoteStatus(Value):
    """Size in bytes, and time in ns since the epoch."""

    st_size: int
    st_mtime_ns: int


def entries(directory: str) -> Iterator[RemoteEntry]:
    """Yield the entries of a directory, sorted.

    Args:
        directory: URL.

    Raises:
        OSError: it cannot be listed.
    """
    from pyarrow import fs

    at, known = _just_listed.pop(directory.rstrip("/"), (0.0, ()))
    if known and monotonic() - at < _AT_ONCE:
        yield from known
        return
    store, inside = _located(directory)
    found = store.get_file_info(fs.FileSelector(inside))
    for one in sorted(found, key=lambda one: str(one.base_name)):
        status = RemoteStatus(one.size or 0, one.mtime_ns or 0)
        yield RemoteEntry(one.base_name, one.type is fs.FileType.Directory, status)


class RemoteSource(FileSource):
    """A Source over a file in a store.

    Args:
        path: URL.

    Attributes:
        modified: ms since the epoch, when it was opened; 0 where the store does not say.

    Raises:
        OSError: it cannot be opened.
    """

    is_near = False

    def __init__(self, path: str) -> None:
        from pyarrow import fs

        self.name = path
        self._file: Any = None
        self._held = memoryview(b"")
        self._held_from = 0
        store, inside = _located(path)
        found = store.get_file_info(inside)
        if found.type is fs.FileType.NotFound:
            raise FileNotFoundError(path)
        if found.type is fs.FileType.Directory:
            raise IsADirectoryError(path)
        self.size = found.size  # bytes, when it was opened
        self.modified = (found.mtime_ns or 0) // 1_000_000
        self._file = store.open_input_file(inside)

    def read_at(self, position: int, length: int) -> bytes:
        """Return the bytes [position, position + length), fewer only at the end."""
        return bytes(self._range(position, length))

    def read_into(self, position: int, target: memoryview) -> int:
        """Fill `target` from `position` on; return how many bytes there were."""
        part = self._range(position, len(target))
        target[: len(part)] = part
        return len(part)

    def _range(self, position: int, length: int) -> memoryview:
        wanted = max(0, min(length, self.size - position))
        start = position - self._held_from
        if start < 0 or start + wanted > len(self._held):
            try:
                data = self._file.read_at(max(wanted, min(_AHEAD, self.size - position)), position)
            except OSError as error:
                raise OSError(error.errno, first_line(error), self.name) from None
            if len(data) < wanted:
                raise FileShrankError(self.name, position + len(data))
            self._held, self._held_from, start = memoryview(data), position, 0
        return self._held[start : start + wanted]

    def next_data(self, position: int) -> int:
        """Return `position`: stores have no holes."""
        return min(position, self.size)

    def close(self) -> None:
        """Close the file; a second time does nothing."""
        self._held = memoryview(b"")
        if self._file is not None:
            self._file.close()
