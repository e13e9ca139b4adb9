"""Two trees beside each other: the same one says the same, and what differs is named."""

from __future__ import annotations

from pathlib import Path

from tests.support.side_by_side import KINDS, Tree, compared, many

_TREE = str(Path(__file__).parents[1])


class _Other(Tree):
    """A tree that says something else."""

    def answer(self) -> list[list[str]]:
        """Return what came of each run, with one line changed."""
        return [["changed", *lines[1:]] for lines in super().answer()]


def test_a_tree_says_the_same_as_itself() -> None:
    found, count = many((_TREE, _TREE), range(len(KINDS)))
    assert not found
    assert count > len(KINDS)


def test_the_first_line_that_differs_is_told(tmp_path: Path) -> None:
    runs = KINDS[3](tmp_path, 3)
    trees = Tree(_TREE), _Other(_TREE)
    found = list(compared(trees, "seed 3", tmp_path, runs))
    for tree in trees:
        tree.close()
    assert [one.new for one in found] == ["changed"] * len(runs)
    assert all(one.old.startswith("{") for one in found)
