"""Makes the picture of the HTML report that the README shows, from fixtures: its head, and its damage maps.

python -m tests.support.report_picture man/kdump-verify-report.png
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from tests.support.chromium import tab
from tests.support.report_pages import ORIGIN, page_of
from tests.support.report_scene import build, items_of_scene

_WIDTH, _HEIGHT = 1000, 860
_EXCERPT = """
document.querySelectorAll('#steps, #partitions, #maps figure:first-of-type, nav').forEach((e) => e.remove())
"""


def main() -> None:
    """Write the picture."""
    target = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder)
        os.chdir(folder)  # so that paths are short
        (folder / "report.html").write_text(page_of(items_of_scene(Path("broker-1")), origin=ORIGIN), "utf-8")
        with tab(folder / "profile") as page:
            page.look(_WIDTH)
            page.open(folder / "report.html")
            page.ask(_EXCERPT)
            page.picture(target, _HEIGHT)


if __name__ == "__main__":
    main()
