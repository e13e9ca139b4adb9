"""What holds for all tests: property tests are the same in each run, so that no landing hangs on luck.

`-m quick` collects only the files that bear the mark: to read all of them is most of what a quick run would take.
"""

from __future__ import annotations

import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.sample import OneIn

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a script; what is started would keep that
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a slow interpreter run a sample, and whoever has the time run all."""
    parser.addoption("--every", type=int, default=1, metavar="N", help="of the cases of each test run one in N")
    parser.addoption("--all", action="store_true", help="run all cases of tests that are marked as sampled, too")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Read no file of tests that `-m quick` would leave out whole."""
    is_quick = config.getoption("-m") == "quick" and collection_path.suffix == ".py"
    return True if is_quick and "pytest.mark.quick" not in collection_path.read_text("utf-8") else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not in the sample; the first case of each test always is."""
    seen = Counter[str]()
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        name = item.nodeid.partition("[")[0]
        (left_out if seen[name] % _step(config, item) else kept).append(item)
        seen[name] += 1
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


@pytest.fixture(scope="session")
def one_in(pytestconfig: pytest.Config) -> OneIn:
    """Of what one test goes through itself, such as the calls of a writer, one in N; all with `--all`."""
    return lambda step, things: things if pytestconfig.getoption("--all") else things[::step]


def _step(config: pytest.Config, item: pytest.Item) -> int:
    """One in how many cases of a test is run."""
    sampled = item.get_closest_marker("sampled")
    own = 1 if sampled is None or config.getoption("--all") else int(sampled.args[0])
    every: int = config.getoption("--every")
    return max(own, every)
