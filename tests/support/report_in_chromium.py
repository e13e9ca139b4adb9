"""Opens HTML reports in Chromium, as they are sent on: at 390 and 1280 px, light and dark, and printed.

    python -m tests.support.report_in_chromium [--pictures DIR]

Fails where a page asks for something, has an error, is wider than the screen, cuts text off, has text of too little
contrast, or marks that do not answer the keyboard. The pages are those of a damaged directory, of replicas, of one
without damage, of hostile names, and of 3,000 partitions.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.support.chromium import Tab, program, tab
from tests.support.report_items import PAYLOADS, hostile, large
from tests.support.report_pages import page_of
from tests.support.report_scene import build, items_of_scene

WIDTHS = (390, 1280)
_CLIPPED = """
(() => {
  const found = [];
  const hidden = (e) => e.closest('.vh, thead, .skip, .tip, .defs, details:not([open]) > :not(summary)') !== null;
  for (const e of document.querySelectorAll('body *')) {
    if (hidden(e) || !e.textContent.trim()) continue;
    const css = getComputedStyle(e), box = e.getBoundingClientRect();
    if (css.visibility === 'hidden' || !box.width) continue;
    const who = e.tagName + ' ' + e.textContent.trim().slice(0, 60);
    if (box.right > innerWidth + 1 || box.left < -1) found.push('outside: ' + who);
    if (css.overflowX !== 'visible' && e.scrollWidth > e.clientWidth + 1 && e.clientWidth) found.push('cut: ' + who);
  }
  return found.slice(0, 5);
})()
"""
_PALE = """
(() => {
  const canvas = document.createElement('canvas').getContext('2d');
  const rgb = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const back = (e) => {
    for (; e; e = e.parentElement) {
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const found = new Set();
  for (const e of document.querySelectorAll('body *')) {
    if (e.tagName === 'title' || ![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
    const css = getComputedStyle(e);
    const colour = e instanceof SVGElement ? css.fill : css.color;
    const a = light(rgb(colour)), b = light(back(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.add(e.tagName + '.' + (e.getAttribute('class') || '') + ' ' + ratio.toFixed(2));
  }
  return [...found].slice(0, 5);
})()
"""
_FOCUS = """
(() => {
  const mark = document.querySelector('a.mark');
  if (!mark) return 'none';
  mark.focus();
  const tip = mark.querySelector('.tip'), box = tip.getBoundingClientRect();
  const shown = getComputedStyle(tip).visibility === 'visible' && box.left >= 0 && box.right <= innerWidth;
  return shown && document.activeElement === mark ? 'shown' : 'not shown';
})()
"""


def pages(folder: Path) -> dict[str, str]:
    """The pages by name."""
    first, second = build(folder)
    damaged = items_of_scene(first)
    return {
        "damaged": page_of(damaged),
        "replicas": page_of(items_of_scene(first, second, replicas=True), replicas=True),
        "sound": page_of(items_of_scene(second)),
        "hostile": page_of([item for text in PAYLOADS for item in hostile(text)], replicas=True),
        "large": page_of(large(3000, 3000, 10_000)),
    }


def faults(page: Tab, path: Path, width: int, *, dark: bool) -> list[str]:
    """What is wrong with a page on such a screen."""
    page.look(width, dark=dark)
    page.open(path)
    found = _events(page.events, path)
    wide = page.ask("document.scrollingElement.scrollWidth")
    if wide > width:
        found.append(f"it is {wide} px wide")
    if path.stem != "large":
        found += page.ask(_CLIPPED)
        found += [f"pale: {one}" for one in page.ask(_PALE)]
    if page.ask(_FOCUS) == "not shown":
        found.append("a mark does not show its text when it has the focus")
    page.ask("document.querySelectorAll('details').forEach((e) => { e.open = true })")
    wide = page.ask("document.scrollingElement.scrollWidth")
    if wide > width:
        found.append(f"it is {wide} px wide with everything open")
    return found


def _events(events: list[dict[str, Any]], path: Path) -> list[str]:
    found = []
    for one in events:
        method, what = one.get("method"), one.get("params", {})
        if method == "Network.requestWillBeSent" and what["request"]["url"] != path.as_uri():
            found.append(f"it asks for {what['request']['url']}")
        elif method == "Log.entryAdded":
            found.append(what["entry"]["text"])
        elif method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
            found.append(str(what))
    return found


def main() -> int:
    """Look at all pages; the status is 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=Path, help="keep pictures and PDF files there")
    pictures = parser.parse_args().pictures
    if program() is None:
        sys.exit("no chromium")
    bad = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = pages(folder)
        with tab(folder / "profile") as page:
            for title, text in made.items():
                path = folder / f"{title}.html"
                path.write_text(text, "utf-8")
                shown = [(width, dark) for width in WIDTHS for dark in (False, True)]
                if title == "large":  # once: it takes a browser some seconds
                    shown = shown[:1]
                for width, dark in shown:
                    found = faults(page, path, width, dark=dark)
                    bad += bool(found)
                    shade = "dark" if dark else "light"
                    print(f"{title} {width} px {shade}: {'; '.join(found) or 'well'}")
                    if pictures is not None and title != "large":
                        page.open(path)
                        page.picture(pictures / f"{title}-{width}-{shade}.png")
                if title == "large":
                    continue
                page.look(1280)
                page.open(path)
                paper = page.pdf()
                is_paper = paper.startswith(b"%PDF") and len(paper) > 10_000
                bad += not is_paper
                print(f"{title} printed: {len(paper)} bytes")
                if pictures is not None:
                    (pictures / f"{title}.pdf").write_bytes(paper)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
