"""The page: templates, the one place where text becomes HTML, and what is folded so that it stays small.

The templates are Jinja's. It escapes whatever is put into them unless it is told otherwise, and nobody tells it: no
template has the word `safe`, and no module here makes markup. A page of this kind written by hand needs the same in a
hundred places. It costs an installation half a megabyte, and a run nothing unless a report is asked for: it is imported
here only.

Every value goes through `_shown`, text of files, messages and commands alike: what controls a terminal or turns the
direction of text is made visible there, as in all other output. With `--redact` the items come with tokens already.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from kdump.value import Value
from kdump.words.escape import escape

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

FINDINGS = "findings"  # the section that others lead to: the more it folds, the fewer links there are
MAX_BYTES = 1_950_000  # of the sections of a page that is folded: it is sent by mail


def _shown(value: object) -> object:
    """Return a value as the page has it, still to be escaped for HTML.

    Args:
        value: text, a number, or what a template has made already; None is nothing.
    """
    if value is None:
        return ""
    return escape(value) if type(value) is str else value


def _template(name: str) -> str:
    """Return a template without what only its reader needs: there is one for each finding."""
    return re.sub(r"\n[ ]+", "\n", _file(name))


def _file(name: str) -> str:
    return (files("kdump.render.html") / "templates" / name).read_text("utf-8")


@cache
def _environment() -> Environment:
    return Environment(
        loader=FunctionLoader(_template),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


class SectionForm(Value):
    """One way to show a section."""

    template: str  # name of the file
    values: dict[str, Any]  # what it shows, by name

    def pieces(self, shared: Mapping[str, Any]) -> Iterator[str]:
        """Yield the HTML.

        Args:
            shared: what all sections know.
        """
        yield from _environment().get_template(self.template).generate({**self.values, **shared})


def pieces(
    head: dict[str, Any], sections: Sequence[Sequence[SectionForm]], most: int | None, known: frozenset[str]
) -> Iterator[str]:
    """Yield a page.

    Args:
        head: what its head shows.
        sections: the forms of each, the most detailed one first.
        known: codes that the page explains.
        most: bytes that it should have; None to show all.
    """
    css = _file("report.css").strip()
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode("ascii")
    shared = {"known": known, "linked": 0}
    yield from SectionForm("head.html", {**head, "css": Markup(css), "digest": digest}).pieces(shared)
    forms = fitted(sections, most, shared)
    for options, form in zip(sections, forms, strict=True):
        if form.values["id"] == FINDINGS:
            shared["linked"] = next(at for at, one in enumerate(options) if one is form)
    for form in forms:
        yield from form.pieces(shared)
    yield from SectionForm("foot.html", {}).pieces(shared)


def fitted(sections: Sequence[Sequence[SectionForm]], most: int | None, shared: Mapping[str, Any]) -> list[SectionForm]:
    """Return a form of each section: the most detailed ones that fit together, or the shortest of all.

    Args:
        sections: the forms of each, the most detailed one first.
        most: bytes of all together; None for the most detailed ones.
        shared: what all sections know.
    """
    chosen = [0 for _ in sections]
    if most is not None:
        sizes = [_size(forms[0], shared, most) for forms in sections]
        while sum(sizes) > most:
            can_shrink = [at for at, forms in enumerate(sections) if chosen[at] + 1 < len(forms)]
            if not can_shrink:
                break
            largest = max(can_shrink, key=lambda at: sizes[at])
            chosen[largest] += 1
            sizes[largest] = _size(sections[largest][chosen[largest]], shared, most)
    return [forms[at] for forms, at in zip(sections, chosen, strict=True)]


def _size(form: SectionForm, shared: Mapping[str, Any], most: int) -> int:
    """The bytes of a form; where it alone has more than there may be, any number above that."""
    size = 0
    for piece in form.pieces(shared):
        size += len(piece.encode("utf-8"))
        if size > most:
            break
    return size
