"""The HTML report: sound and inert HTML, with all that the JSON has, whatever the names are, and never too large."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from kdump.finding import Code, Finding, Severity
from kdump.item import Checked
from kdump.render.html.collected import DAMAGED, PASSED, FoundInFile
from kdump.render.html.headline import headline
from kdump.render.html.map_marks import marks, outline, percent
from kdump.render.html.page import MAX_BYTES, SectionForm, fitted
from kdump.storage.file_source import OpenFailure
from tests.support.damage_cases import Damage, damage_cases
from tests.support.report_items import PAYLOADS, hostile, large
from tests.support.report_pages import ORIGIN, demand_all, demand_inert, page_of, parsed, text_of
from tests.support.report_scene import NOW, build, items_of_scene
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
    items = items_of_scene(scene[0])
    page = page_of(items, fold=fold)
    demand_all(page, items)
    assert "2 of 5 partitions are damaged." in page
    assert page.count('<figure class="map">') == 4


@pytest.mark.parametrize("case", damage_cases(FIXTURES / "damage")[::12], ids=lambda case: case.name)
def test_everything_of_recorded_damage_is_in_it(case: Damage, tmp_path: Path) -> None:
    items = items_of_scene(case.build(tmp_path / "logdir"))
    demand_all(page_of(items), items)


def test_replicas_stand_side_by_side(scene: tuple[Path, Path]) -> None:
    items = items_of_scene(*scene, replicas=True)
    page = page_of(items, replicas=True)
    demand_all(page, items)
    text = text_of(parsed(page))
    assert "payments-7: who has what of its offsets" in text
    assert f"all are intact in {scene[1] / 'payments-7'}" in text


def test_a_start_that_ends_the_broker_is_told(tmp_path: Path) -> None:
    logdir = tmp_path / "logdir"
    shutil.copytree(FIXTURES / "damage/intact/none/logdir", logdir)
    (logdir / "recovery-point-offset-checkpoint").write_text("rubbish\n")
    items = items_of_scene(logdir)
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


def test_a_partition_is_named_wherever_it_is_looked_at_from(
    scene: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(scene[0] / "payments-7")
    for path in (".", "../payments-7/", f"{scene[0]}//payments-7//"):
        items = items_of_scene(path)
        page = page_of(items, [path])
        demand_all(page, items)
        assert "payments-7 is damaged." in page
    both = items_of_scene(".", "../txn-0")
    assert "Both partitions are damaged." in page_of(both)


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
    from kdump.tally import Tally

    return Tally()


def test_the_head_says_what_starts_have_in_common(scene: tuple[Path, Path]) -> None:
    same = "At the next start, however it was shut down, a broker loads everything as it is."
    assert same in page_of(items_of_scene(scene[1]))
    page = page_of(items_of_scene(scene[0]))
    assert "At the next start after a clean shutdown a broker loads everything as it is." in page
    lost = "a broker cuts away 49.1 kB with 651 readable records, and gives out offsets a second time."
    assert f"At the next start after an unclean shutdown or the loss of its checkpoints {lost}" in page


def test_a_scrub_has_its_report(scene: tuple[Path, Path], tmp_path: Path) -> None:
    done = run("verify", "--format", "html", "--now", NOW, "--scrub", str(tmp_path / "ledger"), str(scene[0]))
    page = done.stdout.decode("utf-8")
    demand_inert(page)
    assert "1 of 5 partitions is damaged." in page
    assert page.count('<figure class="map">') == 1


# --- nothing in a name or a key can do anything -------------------------------------------------------------
@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_hostile_names_and_keys_are_inert(payload: str) -> None:
    origin = ORIGIN.replace(command=payload, version=payload, host=payload)
    items = hostile(payload)
    page = page_of(items, ["dir"], origin=origin, replicas=True)
    tree = demand_inert(page)
    from kdump.words.escape import escape

    seen = re.sub(r"\s+", " ", escape(payload))
    assert text_of(tree).count(seen) >= 9
    assert [one.tag for one in tree.iter()] == _plain_tags()  # it has added nothing
    for form in range(1, 4):  # of the forms for large runs too
        demand_inert("".join(_forms(items, form)))


@cache
def _plain_tags() -> list[Any]:
    """The elements of the page about names that are harmless."""
    page = page_of(hostile("x"), ["dir"], origin=ORIGIN.replace(host="x"), replicas=True)
    return [one.tag for one in demand_inert(page).iter()]


def _forms(items: list[Item], form: int) -> Iterator[str]:
    """The page, with the form of each section that is the so-manieth."""
    from kdump.render.html import page as module
    from kdump.render.html.collected import Collected
    from kdump.render.html.sections import Report
    from kdump.tally import Tally

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
    tree = demand_inert(page_of(items_of_scene(*scene, replicas=True), replicas=True))
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
@pytest.mark.parametrize("damaged", [10, 300, 3000])
def test_a_large_run_stays_small(damaged: int) -> None:
    page = page_of(large(3000, damaged, 10_000))
    assert len(page.encode("utf-8")) < MOST
    if damaged == 10:  # the others are parsed by Chromium: here it takes long
        demand_inert(page)
    names = set(re.findall(r"orders-\d+", page))
    assert names == {f"orders-{at}" for at in range(3000)}
    for code in ("B01", "L09", "X04"):
        assert f'id="c-{code}"' in page
    assert "10000 in all" in page
    if damaged <= 300:
        steps = page.partition('<section id="steps"')[2].partition("</section>")[0]
        assert steps.count("<li>") == 3 * damaged


def test_memory_of_a_page_does_not_grow_with_what_a_file_has() -> None:
    found = FoundInFile("x", fold=True)
    for at in range(20_000):
        found.take(Finding(Code.L09, "x", 100 * at, 10, gap=True))
    assert len(found.shown) == 4
    assert len(marks(found, 2_000_000)) == 1


def test_without_folding_all_is_shown() -> None:
    page = page_of(large(1, 1, 5000), fold=False)
    assert page.count("foreign-bytes</span></th>") == 1667
    assert len(page) > MOST


def test_sections_shrink_one_by_one_the_largest_first() -> None:
    def form(name: str) -> SectionForm:
        return SectionForm("run.html", {"id": name, "title": "x", "facts": [("", "y" * len(name) * 100, False)]})

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


# --- names that may not be seen -----------------------------------------------------------------------------
def test_tokens_stand_in_the_place_of_topics(scene: tuple[Path, Path], tmp_path: Path) -> None:
    import socket

    key = tmp_path / "key"
    key.write_bytes(b"secret")
    key.chmod(0o600)
    options = ("--start", "all", "--now", NOW, "--with-host", "--redact-key", str(key))
    done = run("verify", "--format", "html", *options, str(scene[0]), str(scene[0] / "payments-7"))
    page = done.stdout.decode("utf-8")
    demand_inert(page)
    assert "tok-" in page
    assert socket.gethostname() not in page
    for topic in ("payments", "tombstone", "mixed-0", "epochs-0"):
        assert topic not in page
    assert "2 of 5 partitions are damaged." in page
