"""The HTML report: sound and inert HTML, with all that the JSON has, whatever the names are, and never too large."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from kdump.finding import Code, Finding, Severity
from kdump.format.kinds import FileKind
from kdump.item import (
    Certainty,
    Checked,
    CheckedFile,
    Loss,
    PartitionChecked,
    Prediction,
    SegmentChecked,
    SegmentFate,
    Step,
)
from kdump.render.html.collected import DAMAGED, PASSED, FoundInFile
from kdump.render.html.damage_map import marks, outline, percent
from kdump.render.html.headline import headline
from kdump.render.html.page import MAX_BYTES, Form, fitted
from kdump.storage.file_source import OpenFailure
from tests.support.report_pages import ORIGIN, demand_all, demand_inert, page_of, parsed, text_of
from tests.support.report_scene import NOW, build
from tests.support.runs import FIXTURES, Run, run_kdump
from tests.support.verify_runs import FOLDERS, items_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kdump.item import Item

MOST = 2_000_000  # bytes of a page that is sent by mail


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A damaged log directory and a sound one with a replica."""
    return build(tmp_path_factory.mktemp("scene"))


def _items(*paths: Path, **options: Any) -> list[Item]:
    from kdump.broker.config import Config
    from kdump.broker.load.facts import Start
    from kdump.broker.load.log_manager import LoadSettings

    settings = LoadSettings(ORIGIN.now, Config({}), None)
    return items_of(*paths, starts=tuple(Start), settings=settings, **options)


def run(*arguments: str) -> Run:
    """Run the command."""
    return run_kdump(arguments, FIXTURES)


# --- all that the JSON has ----------------------------------------------------------------------------------
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_code_has_its_report(folder: Path) -> None:
    expect = json.loads((folder / "expect.json").read_text("utf-8"))
    items = items_of(*(folder / path for path in expect["paths"]), replicas=expect["replicas"], **expect["options"])
    page = page_of(items, replicas=expect["replicas"])
    demand_all(page, items)
    for item in items:
        if isinstance(item, Finding):
            assert f'id="c-{item.code.name}"' in page  # the manual's entry is folded in


@pytest.mark.parametrize("fold", [True, False])
def test_everything_of_a_damaged_directory_is_in_it(scene: tuple[Path, Path], fold: bool) -> None:
    items = _items(scene[0])
    page = page_of(items, fold=fold)
    demand_all(page, items)
    assert "2 of 5 partitions are damaged." in page
    assert page.count('<figure class="map">') == 4


def test_replicas_stand_side_by_side(scene: tuple[Path, Path]) -> None:
    items = _items(*scene, replicas=True)
    page = page_of(items, replicas=True)
    demand_all(page, items)
    text = text_of(parsed(page))
    assert "payments-7: who has what of its offsets" in text
    assert f"all are intact in {scene[1] / 'payments-7'}" in text


def test_a_start_that_ends_the_broker_is_told(tmp_path: Path) -> None:
    logdir = tmp_path / "logdir"
    shutil.copytree(FIXTURES / "damage/intact/none/logdir", logdir)
    (logdir / "recovery-point-offset-checkpoint").write_text("rubbish\n")
    items = _items(logdir)
    page = page_of(items)
    demand_all(page, items)
    assert "does not load" in page


def test_a_file_that_was_named_has_a_row_and_a_map(scene: tuple[Path, Path]) -> None:
    log = scene[0] / "payments-7" / f"{119:020}.log"
    items = items_of(log)
    page = page_of(items, [str(log)])
    demand_all(page, items)
    assert f"{log.name} is damaged." in page
    assert page.count('<figure class="map">') == 1


def test_what_could_not_be_read_is_said(tmp_path: Path) -> None:
    items: list[Item] = [OpenFailure("a/b.log", "permission", "a/b.log: permission denied"), Checked((), 0, 0)]
    page = page_of(items)
    demand_all(page, items)
    assert page_of([]).count("Nothing was checked.") == 2  # title and headline


# --- the sentence -------------------------------------------------------------------------------------------
def test_a_sound_directory_is_called_sound(scene: tuple[Path, Path]) -> None:
    page = page_of(items_of(scene[1]))
    assert "No damage: payments-7 is sound." in page
    assert "<figure" not in page
    assert headline([], _tally(), is_quiet=False)[0] == "NOTHING"


def _tally() -> Any:
    from kdump.render.tally import Tally

    return Tally()


# --- nothing in a name or a key can do anything -------------------------------------------------------------
PAYLOADS = [
    "<script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<svg><a xlink:href=javascript:alert(1)>x</a></svg>",
    '" onmouseover="alert(1)',
    "' onfocus='alert(1)' autofocus='",
    "`onclick=alert(1)`",
    '"><iframe src=//evil.example>',
    "--><script>alert(1)</script><!--",
    "]]><script>alert(1)</script><![CDATA[",
    "<!--",
    "<!DOCTYPE html>",
    "&lt;script&gt;",
    "&#60;script&#62;",
    "&amp",
    "&nosuch;",
    "{{ 7 * 7 }}",
    "{% for x in y %}",
    "{# comment #}",
    "${alert(1)}",
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "</main></body></html>",
    "<base href=//evil.example>",
    "<meta http-equiv=refresh content=0;url=//evil.example>",
    "<form action=//evil.example><input>",
    "\x00\x01\x08\x0b\x0c\x0e\x1b[2J\x7f\x85",
    "\u202egnp.exe\u2066\u2028\u2029\ufeff\ufffe\ufdd0",
    "\udcff\udc80\udcfe",
    "line\nbreak\rand\ttab",
    "\U000e0001\ue000\U0010ffff",
    "&#x110000;&#xD800;&#0;",
]


def _hostile(text: str) -> list[Item]:
    """Items that have a text wherever one can be."""
    name = text.replace("/", "|")  # no name has it
    directory = f"dir/{name}-0"
    log = f"{directory}/{0:020}.log"
    values = {"why": text}
    starts = (True, None, None, None), (False, "broker", text, text)
    return [
        Finding(
            Code.R03,
            log,
            10,
            20,
            offset=1,
            last_offset=2,
            field=text,
            found=text,
            expected=text,
            values={"index": 1, **values},
            repair=text,
        ),
        *[Finding(Code.R05, log, at, 2, values={"index": at, **values}) for at in range(9)],
        Finding(Code.F01, f"{directory}/{name}", values=values),
        SegmentChecked(log, 0, 10, 100, 1, 1, None, None, True),
        Checked((CheckedFile(log, FileKind.LOG, 100),), 1, 1),
        Loss(directory, f"{name}-0", log, 10, 20, 1, 2, None, Certainty.LOST, ("R03",), (f"other/{name}",)),
        Loss(directory, f"{name}-0", None, None, None, 4, 4, 1, Certainty.ABSENT, (text,), None),
        PartitionChecked(directory, 1, 0, 10, 100),
        OpenFailure(f"{directory}/{name}", "other", f"{directory}: {text}"),
        *[
            Prediction(
                directory,
                f"{name}-0",
                start,
                loads,
                stops,
                why,
                java,
                0,
                5,
                7,
                1,
                (text,),
                (SegmentFate(0, "truncate", 10),),
                1,
                (5, 9),
                None if loads else (text, text),
            )
            for start, (loads, stops, why, java) in zip(("clean", "unclean"), starts, strict=True)
        ],
        Step(1, text, text),
        Step(2, None, text, (1,)),
    ]


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_hostile_names_and_keys_are_inert(payload: str) -> None:
    origin = ORIGIN.replace(command=payload, version=payload, host=payload)
    items = _hostile(payload)
    page = page_of(items, ["dir"], origin=origin, replicas=True)
    tree = demand_inert(page)
    from kdump.render.escape import escape

    seen = re.sub(r"\s+", " ", escape(payload))
    assert text_of(tree).count(seen) >= 9
    plain = demand_inert(page_of(_hostile("x"), ["dir"], origin=ORIGIN.replace(host="x"), replicas=True))
    assert [one.tag for one in tree.iter()] == [one.tag for one in plain.iter()]  # it has added nothing
    for form in range(1, 4):  # of the forms for large runs too
        demand_inert("".join(_forms(items, form)))


def _forms(items: list[Item], form: int) -> Iterator[str]:
    """The page, with the form of each section that is the so-manieth."""
    from kdump.render.html import page as module
    from kdump.render.html.collected import Collected
    from kdump.render.html.sections import Report
    from kdump.render.tally import Tally

    tally, found = Tally(), Collected((), fold=True, wanted=None, keep=True)
    for item in items:
        tally.see(item)
        found.see(item)
    report = Report(found, tally, ORIGIN, 3, replicas=True, is_quiet=False)
    shown = [forms[: form + 1] for forms in report.sections]
    known = frozenset(code.name for code in found.codes)
    return module.pieces(report.head, shown, 1, known)


def test_hostile_directories_are_shown_by_the_command(tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)>\n\u202e-0"
    shutil.copytree(FIXTURES / "batch-b01-crc-mismatch", tmp_path / name)
    done = run("verify", "--format", "html", "--now", NOW, str(tmp_path / name))
    page = done.stdout.decode("utf-8")
    assert done.exit == 3
    demand_inert(page)
    assert "&lt;img src=x onerror=alert(1)&gt;\\x0a\\u{202e}-0" in page


# --- the page itself ----------------------------------------------------------------------------------------
def test_the_page_forbids_what_it_does_not_need(scene: tuple[Path, Path]) -> None:
    page = page_of(items_of(scene[0]))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert policy is not None
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy[1] == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert page.index("Content-Security-Policy") < page.index("<style>")


def test_readers_that_see_nothing_find_their_way(scene: tuple[Path, Path]) -> None:
    tree = demand_inert(page_of(_items(*scene, replicas=True), replicas=True))
    prefix = "{http://www.w3.org/1999/xhtml}"
    assert tree.find(f".//{prefix}html") is None
    assert tree.get("lang") == "en"
    for landmark in ("header", "main", "nav", "footer", "h1"):
        assert len(list(tree.iter(f"{prefix}{landmark}"))) == 1
    for table in tree.iter(f"{prefix}table"):
        assert table.find(f"{prefix}caption") is not None
        assert all(head.get("scope") for head in table.iter(f"{prefix}th"))
    for picture in tree.iter("{http://www.w3.org/2000/svg}svg"):
        assert picture.get("aria-label") or picture.get("aria-hidden") == "true"
    for mark in tree.iter("{http://www.w3.org/2000/svg}a"):
        assert text_of(mark)


def test_the_same_input_gives_the_same_page(scene: tuple[Path, Path]) -> None:
    arguments = ("verify", "--format", "html", "--start", "all", "--now", NOW, str(scene[0]))
    first, again = run(*arguments), run(*arguments, "-j", "2")
    assert first.exit == again.exit == 3
    assert first.stdout == again.stdout
    page = first.stdout.decode("utf-8")
    assert "2026-11-22T03:12:00.000Z" in page
    assert f"kdump verify --format html --start all --now {NOW} {scene[0]}" in page


def test_the_host_is_named_on_request_only(scene: tuple[Path, Path]) -> None:
    import socket

    named = run("verify", "--format", "html", "--with-host", str(scene[1])).stdout.decode("utf-8")
    assert f"<dt>host</dt><dd>{socket.gethostname()}</dd>" in named
    assert "<dt>host</dt>" not in run("verify", "--format", "html", str(scene[1])).stdout.decode("utf-8")
    assert run("verify", "--with-host", str(scene[1])).exit == 2


def test_quiet_leaves_out_what_is_no_error(scene: tuple[Path, Path]) -> None:
    page = run("verify", "--format", "html", "--quiet", str(scene[0])).stdout.decode("utf-8")
    demand_inert(page)
    assert "B01" in page
    assert "F08" not in page
    assert 'id="steps"' not in page


# --- large runs ---------------------------------------------------------------------------------------------
def _large(partitions: int, damaged: int, findings: int) -> Iterator[Item]:
    """A run with so many partitions, and so many findings in those that are damaged."""
    each, extra = divmod(findings, damaged)
    number = 0
    for at in range(partitions):
        path = f"/var/lib/kafka/data/orders-{at}"
        log = f"{path}/{31007:020}.log"
        files = [
            CheckedFile(log, FileKind.LOG, 402_653_184),
            CheckedFile(f"{path}/{31007:020}.index", FileKind.INDEX, 10_000),
        ]
        if at < damaged:
            for k in range(each + (at < extra)):
                kind = (Code.B01, Code.L09, Code.X04)[k % 3]
                values: dict[str, int | str | None] = {"why": "x"}
                file = files[1].path if kind is Code.X04 else log
                position = 51_380_224 + 20_000 * k
                yield Finding(
                    kind,
                    file,
                    position,
                    16_384,
                    gap=kind is Code.L09,
                    found=7,
                    expected=9,
                    count=80,
                    values=values,
                    repair=f"kdump reindex {file}",
                    offset=40_112 + k,
                    last_offset=40_191 + k,
                )
                yield Loss(
                    path,
                    f"orders-{at}",
                    log,
                    position,
                    16_384,
                    40_112 + 200 * k,
                    40_191 + 200 * k,
                    80,
                    Certainty.DOUBTFUL,
                    (kind.name,),
                )
            yield SegmentChecked(log, 31_007, 58_410, 402_653_184, 5000, 27_000, None, None, True)
        yield Checked(tuple(files), 5000, 27_000)
        yield PartitionChecked(path, 4, 1200, 58_410, 402_653_184)
    for at in range(partitions):
        path = f"/var/lib/kafka/data/orders-{at}"
        for start in ("clean", "unclean", "full"):
            is_cut = at < damaged and start != "clean"
            segments = (SegmentFate(31_007, "truncate", 51_380_224),) if is_cut else ()
            yield Prediction(
                path,
                f"orders-{at}",
                start,
                True,
                None,
                None,
                None,
                1200,
                40_112 if is_cut else 58_410,
                214_000_000 * is_cut,
                18_298 * is_cut,
                ("index.interval.bytes=4096 (by the stored indexes)",),
                segments,
                0,
                (40_112, 58_409) if is_cut else None,
            )
    for at in range(damaged):
        path = f"/var/lib/kafka/data/orders-{at}"
        number += 3
        where = f"B01 crc-mismatch at byte 51380224 of {path}/{31007:020}.log"
        how = "stop the broker, move the directory away, and let it be replicated again"
        restored = f"restore {path} from another replica, if one is sound ({where}): {how}"
        saved = "writes all that is intact, what lies behind the damage too, to a new directory"
        cut = f"cuts the log at the first damage, {where} (offset 40112): all that is intact behind it goes too"
        yield Step(number - 2, None, restored, (number - 1, number))
        yield Step(number - 1, f"kdump salvage {path} --to DIR", saved, (number,))
        yield Step(number, f"kdump truncate {path} --at-damage", cut)


@pytest.mark.parametrize("damaged", [10, 300, 3000])
def test_a_large_run_stays_small(damaged: int) -> None:
    page = page_of(_large(3000, damaged, 10_000))
    assert len(page.encode("utf-8")) < MOST
    text = text_of(demand_inert(page))
    for at in range(3000):
        assert f"orders-{at}" in text
    for code in ("B01", "L09", "X04"):
        assert f'id="c-{code}"' in page
    assert "10000 in all" in text
    if damaged <= 300:
        for n in range(1, 3 * damaged + 1):
            assert f'value="{n}"' in page


def test_memory_of_a_page_does_not_grow_with_what_a_file_has() -> None:
    found = FoundInFile("x", fold=True)
    for at in range(20_000):
        found.take(Finding(Code.L09, "x", 100 * at, 10, gap=True))
    assert len(found.shown) == 4
    assert len(marks(found, 2_000_000)) == 1


def test_without_folding_all_is_shown() -> None:
    page = page_of(_large(1, 1, 5000), fold=False)
    assert page.count("foreign-bytes</span></th>") == 1667
    assert len(page) > MOST


def test_sections_shrink_one_by_one_the_largest_first() -> None:
    def form(name: str) -> Form:
        return Form("run.html", {"id": name, "title": "x", "facts": [("", "y" * len(name) * 100, False)]})

    sections = [[form("aaaaaaaa"), form("a")], [form("bbbb"), form("b")], [form("cc")]]
    shared: dict[str, Any] = {"known": frozenset(), "linked": 0}

    def fit(most: int | None) -> list[str]:
        return [one.values["id"] for one in fitted(sections, most, shared)]

    assert fit(None) == fit(MAX_BYTES) == ["aaaaaaaa", "bbbb", "cc"]
    assert fit(1600) == ["a", "bbbb", "cc"]
    assert fit(0) == ["a", "b", "cc"]


# --- maps ---------------------------------------------------------------------------------------------------
def test_marks_are_to_scale_and_near_ones_are_joined() -> None:
    found = FoundInFile("x", fold=True)
    found.take(Finding(Code.L04, "x", 500, 100, gap=True, offset=7, last_offset=9))
    found.take(Finding(Code.B01, "x", 0, 10, offset=1))
    found.take(Finding(Code.B01, "x", 12, 10, offset=2))
    found.take(Finding(Code.B01, "x", 900, 100))
    found.take(Finding(Code.O04, "x", 300, 0, severity_override=Severity.NOTE))
    passed, first, last = marks(found, 1000)
    assert (passed.what, passed.x, passed.width, passed.offsets, passed.finding) == (PASSED, "50%", "10%", (7, 9), 0)
    assert (first.what, first.x, first.width, first.places, first.finding) == (DAMAGED, "0%", "2.2%", 2, None)
    assert first.text == "damaged: 2 places in bytes 0..21, B01, offsets 1..2"
    assert last.text == "damaged: bytes 900..999, B01 crc-mismatch"
    assert percent(1, 3) == "33.333%"
    assert outline([passed], 8) == {"passed over": "M500 0h100v8h-100z"}
    assert marks(None, 10) == marks(found, 0) == []
