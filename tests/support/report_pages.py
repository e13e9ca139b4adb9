"""What the tests of the HTML report share: pages made in this process, and what may stand in one."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import html5lib

from kdump.render.html.sections import ReportOrigin
from kdump.render.html.verify import VerifyHtml
from kdump.render.row_lines import RowLines
from kdump.tally import Tally
from kdump.words.escape import escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from xml.etree.ElementTree import Element

    from kdump.item import Item

ORIGIN = ReportOrigin("kdump verify --format html DIR", "0.1.0", 1_795_000_000_000, None, True)
_XHTML = "{http://www.w3.org/1999/xhtml}"
_ASKS = (
    "src",
    "srcset",
    "action",
    "formaction",
    "data",
    "poster",
    "background",
    "ping",
    "style",
    "target",
    "xlink:href",
)
_LOUD = ("error", "warning")


def page_of(
    items: Iterable[Item],
    paths: Iterable[str] = (),
    *,
    fold: bool = True,
    origin: ReportOrigin = ORIGIN,
    **options: Any,
) -> str:
    """The page about some items."""
    written: list[str] = []
    options = {"wanted": None, "replicas": False} | options
    sink = VerifyHtml(written.append, lambda _: None, Tally(), list(paths), origin, fold=fold, **options)
    for item in items:
        sink(item)
    sink.end(0)
    return "".join(written)


def rows_of(items: Iterable[Item]) -> list[dict[str, Any]]:
    """The JSON about the same items."""
    written: list[str] = []
    sink = RowLines(written.append, lambda _: None, Tally(), wanted=None)
    for item in items:
        sink(item)
    sink.end(0)
    return [json.loads(line) for line in written]


def parsed(page: str) -> Element:
    """The page as a browser takes it; it must have no error."""
    found: Element = html5lib.HTMLParser(strict=True).parse(page)
    return found


def text_of(element: Element) -> str:
    """What a reader sees, blanks as one."""
    return re.sub(r"\s+", " ", "".join(element.itertext()))


def demand_inert(page: str) -> Element:
    """Fail where a page runs, asks for or sends anything; return it parsed."""
    tree = parsed(page)
    ids = {element.get("id") for element in tree.iter() if element.get("id")}
    tags = [element.tag for element in tree.iter() if isinstance(element.tag, str)]
    assert len(ids) == sum(element.get("id") is not None for element in tree.iter())  # none twice
    for tag in tags:
        name = tag.rpartition("}")[2]
        assert name not in ("script", "link", "iframe", "object", "embed", "img", "base", "form", "image", "use")
    for element in tree.iter():
        for name, value in element.attrib.items():
            plain = str(name).rpartition("}")[2].lower()
            assert not plain.startswith("on"), (element.tag, name)
            assert plain not in _ASKS, (element.tag, name, value)
            if plain == "href":
                assert value[0] == "#"
                assert value[1:] in ids, value
            if "url(" in value:
                assert re.fullmatch(r"url\(#[a-z]+\)", value)
    (style,) = tree.iter(f"{_XHTML}style")
    assert "url(" not in (style.text or "")
    assert "@import" not in (style.text or "")
    return tree


def demand_all(page: str, items: list[Item]) -> None:
    """Fail where something of the JSON about the same items is not in the page."""
    tree = demand_inert(page)
    text = text_of(tree)
    rows = rows_of(items)
    counts = dict(_counted(tree))
    found: dict[str, int] = {}
    for row in rows:
        if row["type"] == "finding":
            path = _name(row["file"])
            assert row["code"] in text
            assert path in text
            found[path] = found.get(path, 0) + 1 + (row["more"] or 0)
        elif row["type"] == "loss":
            first, last = row["offset"], row["lastOffset"]
            assert (str(first) if first == last else f"{first}..{last}") in text
            assert row["certainty"] in text
            assert _name(row["partition"]) in text
            for replica in row["elsewhere"]:
                assert _name(replica) in text
        elif row["type"] == "step":
            assert _plain(row["why"]) in text
            assert row["command"] is None or _plain(row["command"]) in text
        elif row["type"] == "prediction":
            assert _name(row["partition"]) in text
            assert row["start"] in text
            assert not row["loads"] or f"end {row['logEndOffset']}" in text
            assert not row["bytesLost"] or f"lost bytes: {row['bytesLost']}" in text
            assert row["reason"] is None or _plain(row["reason"]) in text
        elif row["type"] == "summary":
            for one in row["unchecked"]:
                assert one["file"] is None or _name(one["file"]) in text
                assert _plain(one["reason"]) in text
    assert counts == found


def _counted(tree: Element) -> Iterator[tuple[str, int]]:
    """Each file with findings, and how many are shown of it or counted."""
    for body in tree.iter(f"{_XHTML}tbody"):
        if not re.fullmatch(r"f\d+", body.get("id") or ""):
            continue
        rows = list(body.iter(f"{_XHTML}tr"))
        path = next(one for one in rows[0].iter(f"{_XHTML}span") if one.get("class") == "path")
        count = 0
        for row in rows[1:]:
            said = next(row.iter(f"{_XHTML}p"))
            match = re.match(r"(\d+) (?:more|effect)", said.text or "") if row.get("class") == "fold" else None
            count += 1 if match is None else int(match[1])
        yield text_of(path), count


def _name(value: Any) -> str:
    """A name of the JSON as people see it."""
    if isinstance(value, dict):
        import base64

        value = base64.b64decode(value["base64"]).decode("utf-8", "surrogateescape")
    return _plain(value)


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", escape(text))
