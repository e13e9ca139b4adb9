"""The manual says what the program does: man pages and README against commands, exit codes, findings and real runs.

What they say of findings is held to the code table and to lines that kdump prints, never to copies of its sentences.
"""

from __future__ import annotations

import ast
import os
import re
import string
import struct
import subprocess
import sys
import tomllib
from collections import defaultdict
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import lz4.frame
import pytest

import kdump
from kdump.cli.main import kdump as group
from kdump.cli.options.help import Option
from kdump.exit_status import Exit
from kdump.finding import REPAIR_COMMANDS, Code, Finding, Severity
from kdump.format.checksum import crc32c
from kdump.render.text.findings import finding_line
from tests.support import consoles, metadata_records
from tests.support.consoles import MAN, ROOT, plain
from tests.support.coordinator_records import at as timed
from tests.support.coordinator_records import transaction
from tests.support.damage_cases import damage_cases
from tests.support.partitions import write
from tests.support.runs import FIXTURES, run_kdump
from tests.support.schema_logs import log_dir, registered
from tests.support.segments import Record, varint
from tests.support.sources import texts, trees
from tests.support.verify_runs import FOLDERS, STAGED, below, shown_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PACKAGE = Path(kdump.__file__).parent
README = (ROOT / "README.md").read_text("utf-8") if (ROOT / "README.md").is_file() else ""
PAGES = [
    "kdump.1",
    "kdump-dump.1",
    "kdump-verify.1",
    "kdump-find-offset.1",
    "kdump-find-time.1",
    "kdump-retention.1",
    "kdump-repair.1",
    "kdump-reindex.1",
    "kdump-truncate.1",
    "kdump-patch-header.1",
    "kdump-salvage.1",
    "kdump-resume.1",
    "kdump-transactions.1",
    "kdump-cluster.1",
    "kdump-undo.1",
    "kdump-export.1",
    "kdump-carve.1",
    "kdump-du.1",
    "kdump-explain.1",
    "kdump-groups.1",
    "kdump-schemas.1",
    "kdump-serve.1",
    "kdump-partition-for.1",
    "kdump-completion.1",
    "kdump-python.3",
    "kdump-json.5",
    "kdump-findings.7",
    "kdump-fleet.7",
    "kdump-proof.7",
    "kdump-runbooks.7",
    "kdump-spark.7",
    "kdump-tutorial.7",
]
COMMANDS: dict[str, click.Command] = {
    name: command
    for name in group.list_commands(click.Context(group))
    if (command := group.get_command(click.Context(group), name))
}
PAGE_OF: dict[str, click.Command] = {"kdump": group, **{f"kdump-{name}": one for name, one in COMMANDS.items()}}


# --- reading man pages --------------------------------------------------------------------------------------
class Line(NamedTuple):
    """One line of a page: its macro, "" for text, and what the reader sees of the rest."""

    macro: str
    text: str


def page(name: str) -> list[Line]:
    """Read a page without its comments."""
    lines = (MAN / name).read_text("ascii").splitlines()
    return [parsed(line) for line in lines if not line.startswith('.\\"')]


def parsed(line: str) -> Line:
    """Take a line apart; what macros join without a blank is joined."""
    if not line.startswith("."):
        return Line("", plain(line))
    macro, _, rest = line[1:].partition(" ")
    words = re.findall(r'"([^"]*)"|(\S+)', rest)
    joint = "" if macro in ("BR", "RB", "BI", "IB", "IR", "RI") else " "
    return Line(macro, plain(joint.join(quoted or word for quoted, word in words)))


def section(name: str, title: str) -> list[Line]:
    """Return the lines of one section."""
    lines = page(name)
    start = lines.index(Line("SH", title)) + 1
    ends = [at for at in range(start, len(lines)) if lines[at].macro == "SH"]
    return lines[start : ends[0] if ends else len(lines)]


def entries(lines: list[Line]) -> dict[str, str]:
    """Return tag and text of each tagged paragraph; tags that share one have the same."""
    found: dict[str, str] = {}
    tags: list[str] = []
    for at, line in enumerate(lines):
        if at and lines[at - 1].macro in ("TP", "TQ"):
            tags = [*tags, line.text] if lines[at - 1].macro == "TQ" else [line.text]
            found[line.text] = ""
        elif line.macro in ("SS", "TP"):
            tags = []
        elif line.macro != "TQ":
            for tag in tags:
                found[tag] += f" {line.text}"
    return found


# --- man pages as such --------------------------------------------------------------------------------------
KNOWN = {
    "TH", "SH", "SS", "PP", "TP", "TQ", "IP", "B", "I", "BR", "RB", "BI", "IB", "IR", "RI", "EX", "EE", "RS", "RE",
    "br",
}  # fmt: skip


def test_every_command_has_a_page() -> None:
    assert {path.name for path in MAN.iterdir() if path.suffix[1:].isdigit()} == set(PAGES)
    assert {f"{name}.1" for name in PAGE_OF} == {name for name in PAGES if name.endswith(".1")}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_sound(name: str) -> None:
    text = (MAN / name).read_text("ascii")
    raw = [line for line in text.splitlines() if not line.startswith('.\\"')]
    title, number = name.rsplit(".", 1)
    assert raw[0].startswith(f".TH {title.upper().replace('-', chr(92) + '-')} {number} ")
    assert f'"kdump {kdump.__version__}"' in raw[0]
    assert raw[1] == ".SH NAME"
    assert plain(raw[2]).startswith(f"{title} - ")
    assert text.endswith("\n")
    for line in raw:
        assert line, "an empty line sets a paragraph of its own"
        assert line == line.rstrip()
        assert not line.startswith("'")
        assert "\\f" not in line  # macros instead: they are always balanced
        assert re.search(r"(?<![\\-])--[a-z]", line) is None, f"{line}: write \\-\\-"
        if line.startswith("."):
            assert re.match(r"\.([A-Za-z]+)( |$)", line), line
            assert line[1:].split(" ")[0] in KNOWN, line
            assert line.count('"') % 2 == 0, line


@pytest.mark.parametrize("name", PAGES)
def test_the_macros_of_a_page_are_balanced(name: str) -> None:
    lines = page(name)
    for opens, closes in (("EX", "EE"), ("RS", "RE")):
        depth = 0
        for line in lines:
            depth += (line.macro == opens) - (line.macro == closes)
            assert depth in (0, 1)
        assert depth == 0
    for before, line in pairwise(lines):
        if before.macro in ("TP", "TQ"):
            assert line.macro in ("", "B", "I", "BR", "RB", "BI", "IB", "IR", "RI"), "a tag is one line of text"
            assert line.text
        if before.macro in ("SH", "SS"):
            assert before.text
    assert lines[-1].text


@pytest.mark.parametrize("name", PAGES)
def test_the_pages_a_page_names_exist(name: str) -> None:
    others = {f"{line.text}" for line in section(name, "SEE ALSO") if line.macro == "BR"}
    named = {re.sub(r"\((\d)\).*", r".\1", text) for text in others}
    assert named <= set(PAGES) - {name}
    assert name == "kdump.1" or "kdump.1" in named


def test_kdump_1_names_every_other_page() -> None:
    named = {re.sub(r"\((\d)\).*", r".\1", line.text) for line in section("kdump.1", "SEE ALSO") if line.macro == "BR"}
    assert named == set(PAGES) - {"kdump.1"}


# --- options ------------------------------------------------------------------------------------------------
def options(command: click.Command) -> dict[str, click.Option]:
    """Return the options of a command by name, --help included."""
    params = command.get_params(click.Context(command))
    return {
        name: one
        for one in params
        if isinstance(one, click.Option)
        for name in (*one.opts, *one.secondary_opts)
        if not (isinstance(one, Option) and name in one.old)
    }


def documented(name: str) -> dict[str, tuple[str, str]]:
    """Return tag and text of each option that a page explains."""
    tags = entries(section(f"{name}.1", "OPTIONS"))
    return {tag.split(" ")[0]: (tag, text) for tag, text in tags.items()}


COMMON = "OPTIONS OF MANY COMMANDS"


@pytest.mark.parametrize("name", PAGE_OF)
def test_a_page_has_the_options_of_its_command_and_no_other(name: str) -> None:
    assert set(documented(name)) == set(options(PAGE_OF[name]))


@cache
def common() -> dict[str, str]:
    """Return the text of each option that kdump.1 explains for many commands."""
    return {tag.split(" ")[0]: text for tag, text in entries(section("kdump.1", COMMON)).items()}


@pytest.mark.parametrize("name", PAGE_OF)
def test_a_page_says_what_an_option_takes(name: str) -> None:
    for option, (tag, said) in documented(name).items():
        text = common()[option] if COMMON in said else said
        known = options(PAGE_OF[name])[option]
        is_flag = known.is_flag or known.count
        assert (" " in tag) != is_flag, tag
        words = set(re.findall(r"[\w.-]*\w", text))
        if isinstance(known.type, click.Choice):
            assert set(known.type.choices) <= words, option
        if known.show_default and not is_flag:
            assert str(known.default) in words, option


def test_no_page_names_an_option_that_is_not_there() -> None:
    there = {name for command in PAGE_OF.values() for name in options(command)}
    # a command of Kafka's, of the system or of the tests, with its options
    of_others = re.compile(r"\b(kafka-[a-z-]+\.sh|chown|python -m|python tests/\S+) ")
    texts = {name: "\n".join(line.text for line in page(name) if not of_others.search(line.text)) for name in PAGES}
    prose = re.sub(r"(?ms)^```bash\n.*?^```$|`(?:kafka-[a-z-]+\.sh|\.ci/release) [^`]*`", "", README)
    for name, text in {**texts, "README.md": prose}.items():
        assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) <= there, name


def test_the_overview_names_the_commands() -> None:
    assert set(entries(section("kdump.1", "COMMANDS"))) == set(COMMANDS)


# --- exit codes ---------------------------------------------------------------------------------------------
def test_the_overview_has_every_exit_code() -> None:
    tags = entries(section("kdump.1", "EXIT STATUS"))
    assert {int(tag) for tag in tags if tag.isdigit()} == set(Exit)
    assert [tag for tag in tags if not tag.isdigit()] == ["128+N"]


def test_the_readme_has_only_exit_codes_that_exist() -> None:
    table = re.findall(r"(?m)^\| (\d+) \|", README)
    assert table
    assert {int(code) for code in table} <= set(Exit)
    assert len(table) == len(set(table))


# --- findings -----------------------------------------------------------------------------------------------
FINDINGS = "kdump-findings.7"
HEADING = re.compile(r"([A-Z]\d\d) ([a-z0-9-]+) \((error|warning|note)\)")


@cache
def explained() -> dict[str, list[Line]]:
    """Return the lines of each entry by its heading; what comes before the first family is no entry."""
    found: dict[str, list[Line]] = {}
    lines: list[Line] = []
    chapter = ""
    for line in page(FINDINGS):
        if line.macro == "SH":
            chapter, lines = line.text, []
        elif line.macro == "SS" and chapter != "DESCRIPTION":
            lines = found[line.text] = []
        else:
            lines.append(line)
    return {heading: lines for heading, lines in found.items() if not heading.endswith("(a word of text)")}


@cache
def reported() -> set[str]:
    """Return the codes that the code of the package names, the table apart."""
    sources = (text for name, text in texts().items() if name != "finding.py")
    return {code for text in sources for code in re.findall(r"\bCode\.([A-Z]\d\d)\b", text)}


def test_the_page_of_findings_has_every_code_and_no_other() -> None:
    headings = [HEADING.fullmatch(heading) for heading in explained()]
    found = [heading.groups() for heading in headings if heading]
    assert len(found) == len(headings)
    assert found == [(code.name, code.slug, code.severity.value) for code in Code]


@pytest.mark.parametrize("heading", explained())
def test_an_entry_says_what_a_broker_does_and_what_to_do(heading: str) -> None:
    lines = explained()[heading]
    assert lines[0].macro in ("", "B", "I", "BR", "IR")
    assert set(entries(lines)) == {"Broker:", "Now:"}
    assert all(text.strip() for text in entries(lines).values())


@pytest.mark.parametrize("code", Code)
def test_an_entry_names_the_commands_that_mend_and_no_other(code: Code) -> None:
    (lines,) = (lines for heading, lines in explained().items() if heading.startswith(f"{code.name} "))
    named = re.findall(r"\bkdump ([a-z][a-z-]+)", entries(lines)["Now:"])
    assert {*named} & {*REPAIR_COMMANDS.values()} == {*code.repairs}


def examples(lines: list[Line]) -> Iterator[str]:
    """Yield the lines between .EX and .EE."""
    inside = False
    for line in lines:
        inside = inside and line.macro != "EE"
        if inside:
            yield line.text
        inside = inside or line.macro == "EX"


@cache
def example_of() -> dict[str, list[str]]:
    """Return the examples of each code."""
    return {heading.split(" ")[0]: list(examples(lines)) for heading, lines in explained().items()}


@pytest.mark.parametrize("code", sorted(reported()))
def test_an_example_is_how_a_real_line_begins(code: str, lines_of: dict[str, set[str]]) -> None:
    shown = example_of()[code]
    assert shown
    for example in shown:
        assert not example.endswith("="), "it is cut"
        assert any(line.startswith(example) for line in lines_of[code]), sorted(lines_of[code])[:5]


# --- the sentences of the code table ------------------------------------------------------------------------
FIELDS = re.compile(
    r"(?P<severity>error|warning|note) (?P<code>[A-Z]\d\d) (?P<slug>[a-z0-9-]+) (?P<file>\S+?)(:\d+\+\d+)?"
    r"( offset=-?\d+(\.\.-?\d+)?)?( field=[\w.]+)?( found=\S+)?( expected=\S+)?( count=\d+)?: (?P<said>.+)"
)


def rewrite(log: bytes, position: int, change: Callable[[bytearray], None]) -> bytes:
    """Return a log with one batch of magic 2 changed, length and CRC put right."""
    (size,) = struct.unpack_from(">i", log, position + 8)
    batch = bytearray(log[position : position + 12 + size])
    change(batch)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    return log[:position] + bytes(batch) + log[position + 12 + size :]


def intact(base: str, name: str) -> bytes:
    """Return a log of the intact directories."""
    (path,) = (FIXTURES / "damage" / "intact" / base / "logdir").glob(f"*-0/{name}")
    return path.read_bytes()


def positions(log: bytes) -> Iterator[int]:
    """Yield where the batches of an undamaged log begin."""
    at = 0
    while at < len(log):
        yield at
        at += 12 + int.from_bytes(log[at + 8 : at + 12], "big")


def lower_epoch(log: bytes) -> bytes:
    """Let the epoch of a producer fall with its second batch."""
    seen = set()
    for at in positions(log):
        producer, epoch = struct.unpack_from(">qh", log, at + 43)
        if producer in seen and epoch > 0:
            return rewrite(log, at, lambda batch: struct.pack_into(">h", batch, 51, 0))
        seen.add(producer)
    raise AssertionError("there is no second batch of a producer with an epoch above 0")


def wrong_content_checksum(log: bytes) -> bytes:
    """Give an lz4 frame a content checksum, and let it be wrong."""

    def change(batch: bytearray) -> None:
        data = lz4.frame.decompress(bytes(batch[61:]))
        frame = lz4.frame.compress(data, block_linked=False, store_size=False, content_checksum=True)
        batch[61:] = frame[:-1] + bytes([frame[-1] ^ 1])

    at = next(at for at in positions(log) if log[at + 22] & 7 == 3)
    return rewrite(log, at, change)


def long_record(size: int) -> bytes:
    """Return a batch with one record: no key, a value of zero bytes, no headers."""
    record = b"\0\0\0\1" + varint(size) + bytes(size) + b"\0"
    body = struct.pack(">hiqqqhii", 0, 0, 0, 0, -1, -1, -1, 1) + varint(len(record)) + record
    return struct.pack(">qiibI", 0, 9 + len(body), 0, 2, crc32c(body)) + body


NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
ZERO = "00000000000000000000.log"
# What no damaged directory of the fixtures has.
MORE: dict[str, tuple[list[str], str, Callable[[], bytes]]] = {
    "F03": ([], ZERO, lambda: intact("none", ZERO)),
    "L12": (["--max-batch-bytes", "1024"], ZERO, lambda: long_record(1_000_000)),
    "E02": ([], ZERO, lambda: intact("none", ZERO)[:12] + struct.pack(">i", -7) + intact("none", ZERO)[16:]),
    "R07": (["--offsets-decoder"], ZERO, lambda: long_record(10)),
    "C03": (["--max-uncompressed-bytes", "1024"], ZERO, (NODE / "bigbatch-0" / ZERO).read_bytes),
    "C06": ([], ZERO, lambda: wrong_content_checksum(intact("lz4", ZERO))),
    "P02": ([], ZERO, lambda: lower_epoch(intact("txn", ZERO))),
    "V04": (["--decoder-command", "false"], ZERO, lambda: intact("none", ZERO)),
}


# Questions to damaged partitions: what a lookup meets shows there.
ASKED: dict[str, list[list[str]]] = {
    "x-shifted-mid": [["find-offset", "plain-0", "190"]],
    "x-unsound-mid": [["find-offset", "plain-0", "191"]],
    "x07-log-cut-index-stale": [["find-offset", "plain-0", "latest"]],
    "l10-drop-mid": [["find-offset", "plain-0", "192"]],
    "t-all-zero-mid": [["find-time", "plain-0", "1700000063000"]],
    "t-decreasing-mid": [["find-time", "plain-0", "1700000080105"]],
}


def falling_times(folder: Path) -> None:
    """Make a partition whose time index ends with a lower timestamp than it had before."""
    (folder / ZERO).write_bytes(intact("none", ZERO))
    entries = [(1700000020000, 10), (1700000010000, 20)]
    (folder / ZERO.replace(".log", ".timeindex")).write_bytes(b"".join(struct.pack(">qi", *one) for one in entries))
    (folder / ZERO.replace(".log", ".index")).write_bytes(b"")
    (folder.parent / ".kafka_cleanshutdown").write_bytes(b"")


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, list[str]]]:
    """What kdump says of every damaged directory of the fixtures, and of some more: name and lines of findings."""
    found = []
    scratch = tmp_path_factory.mktemp("findings")
    for case in damage_cases(FIXTURES / "damage"):
        tree = case.build(scratch / case.name)
        if (tree / case.file).is_file():
            found.append((case.name, said(["dump", "--deep-iteration", case.file], tree)))
        found += [(case.name, said(args, tree)) for args in ASKED.get(case.name, ())]
    for code, (args, name, make) in MORE.items():
        folder = scratch / code / "extra-0"
        folder.mkdir(parents=True)
        (folder / name).write_bytes(make())
        if code == "F03":
            os.truncate(folder / name, 2**31 + 4096)  # a hole: takes no room
        found.append((code, said(["dump", "--deep-iteration", *args, f"extra-0/{name}"], folder.parent)))
    folder = scratch / "T03" / "extra-0"
    folder.mkdir(parents=True)
    falling_times(folder)
    found.append(("T03", said(["find-time", "extra-0", "1700000005000"], folder.parent)))
    folder = scratch / "P05"
    hanging(folder)
    found.append(("P05", said(["transactions", "."], folder)))
    for code, records in undecoded().items():
        folder = log_dir(scratch / code, {"t": [Record(b"\0\0\0\0\7\1\2", None)]}, records)
        found.append((code, said(["dump", "t-0", "--schemas", "."], folder)))
    folder = scratch / "M"
    misplaced(folder)
    args = [word for name in ("wrong", "other", "mine") for word in ("--check", name)]
    found.append(("M", said(["cluster", "metadata", *args], folder)))
    for folder in FOLDERS:
        found.append((folder.name, [finding_line(one) for one in below(FIXTURES, shown_by(folder)[0])]))
    for staged, (_, stage) in STAGED.items():
        folder = scratch / f"staged-{staged.name}"
        folder.mkdir()
        found.append((staged.name, [finding_line(one) for one in below(folder, stage(folder / "topic-0"))]))
    return found


def undecoded() -> dict[str, list[Record]]:
    """Registries by which a payload with id 7 is not decoded, by the code that says so."""
    return {
        "R08": [registered("t-value", 1, 8, '"long"')],
        "R09": [registered("t-value", 1, 7, '"long"')],
        "R10": [registered("t-value", 1, 7, '"none"')],
    }


def misplaced(folder: Path) -> None:
    """Make a metadata log, and log directories that do not fit it."""
    mine, others = metadata_records.uuid(1), metadata_records.uuid(2)
    records = [metadata_records.broker(1, [mine]), metadata_records.broker(2, [others])]
    records += [metadata_records.topic("orders", 3), metadata_records.topic("payments", 4)]
    records += [metadata_records.partition(number, 3, [1], [mine]) for number in range(2)]
    records += [metadata_records.partition(0, 4, [1], [mine])]
    properties = "version=1\nnode.id=1\ndirectory.id={}\n"
    write(
        folder,
        {
            f"metadata/__cluster_metadata-0/{ZERO}": metadata_records.log(records),
            "mine/meta.properties": properties.format(mine).encode(),
            "mine/gone-0/partition.metadata": b"version: 0\ntopic_id: " + metadata_records.uuid(9).encode(),
            "mine/orders-1/partition.metadata": b"version: 0\ntopic_id: " + metadata_records.uuid(3).encode(),
            "mine/payments-0/partition.metadata": b"version: 0\ntopic_id: " + metadata_records.uuid(9).encode(),
            "other/meta.properties": properties.format(metadata_records.uuid(8)).encode(),
            "wrong/meta.properties": properties.format(others).encode(),
        },
    )


def hanging(folder: Path) -> None:
    """Make a log directory with a transaction that no coordinator knows."""
    time = 1_700_000_000_000
    logs = {
        "__transaction_state-0": [timed(0, time, transaction("other", 1, "Empty"))],
        "orders-0": [timed(0, time, Record()), timed(1, time, Record(), producer=(7, 0))],
    }
    write(folder, {f"{name}/{ZERO}": b"".join(data) for name, data in logs.items()})


def said(args: list[str], cwd: Path) -> list[str]:
    """Return the lines of findings, on stderr or among the answers; what is wrapped stands in one line."""
    notes = ["--notes"] if args[0] in ("dump", "find-offset", "find-time") else []
    run = run_kdump([*args, *notes], cwd)
    lines = (
        re.sub(r"\n  (?=\S)", " ", run.stdout.decode()).splitlines() if args[0] in ("transactions", "cluster") else []
    )
    lines += run.stderr.decode().splitlines()
    assert "Traceback (most recent call last):" not in lines, lines[-1]
    return [line for line in lines if re.match(r"(error|warning|note) ", line)]


@pytest.fixture(scope="session")
def lines_of(runs: list[tuple[str, list[str]]]) -> dict[str, set[str]]:
    """The lines of each code."""
    found: dict[str, set[str]] = defaultdict(set)
    for _, lines in runs:
        for line in lines:
            found[line.split(" ")[1]].add(line)
    return found


@pytest.mark.parametrize("code", sorted(reported()))
def test_a_code_that_the_code_names_can_be_seen_and_reads_well(code: str, lines_of: dict[str, set[str]]) -> None:
    assert lines_of[code]
    for line in lines_of[code]:
        fields = FIELDS.fullmatch(line)
        assert fields, line
        assert (fields["code"], fields["slug"]) == (code, Code[code].slug)
        sentence, arrow, remedy = fields["said"].partition(" -> ")
        assert sentence
        assert arrow
        assert remedy
        assert re.search(r"[{}]|\bNone\b", fields["said"]) is None, line


def test_every_code_of_the_table_is_reported_somewhere() -> None:
    """A code that no code names would be a promise that nothing keeps."""
    assert {code.name for code in Code} == reported()


@pytest.mark.parametrize("code", Code)
def test_a_sentence_needs_only_what_the_code_gives_it(code: Code) -> None:
    """The fields of a finding, and keys that stand in the sources beside `values`."""
    parts = [part for text in (code.sentence, code.remedy) for part in string.Formatter().parse(text)]
    wanted = {field for _, field, _, _ in parts if field}
    own = {name for name in Finding.__match_args__ if name not in ("code", "values")}
    assert wanted - own <= value_keys()


@cache
def value_keys() -> set[str]:
    """Return the constant keys of all dicts in the sources."""
    dicts = (node for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.Dict))
    keys = (key.value for one in dicts for key in one.keys if isinstance(key, ast.Constant))
    return {key for key in keys if isinstance(key, str)}


@pytest.mark.parametrize("code", Code)
def test_a_row_of_the_table_is_written_as_the_others(code: Code) -> None:
    assert re.fullmatch(r"[A-Z]\d\d", code.name)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code.slug)
    assert code.severity in Severity
    assert not code.sentence.endswith(".")
    assert not code.remedy.endswith(".")
    assert len({one.slug for one in Code}) == len(Code)


# --- README and tutorial ------------------------------------------------------------------------------------
TUTORIAL = "kdump-tutorial.7"
JQ = re.compile(r"\| jq -\w+ '")  # tests/render/test_json.py runs these, with or without a jq


def tour() -> list[list[consoles.Example]]:
    """Return all of the README as one block, as it is pasted, and the blocks of the tutorial, each by itself."""
    readme = [example for block in consoles.of_markdown(README) for example in block]
    blocks = [*([readme] if readme else []), *consoles.of_page((MAN / TUTORIAL).read_text("ascii"))]
    return [block for block in blocks if not JQ.search(block[0].command)]


def verbs(block: list[consoles.Example]) -> str:
    """Return the commands of kdump in a block: `.ci/release` leaves out by them what needs a package more."""
    return " ".join(dict.fromkeys(name for one in block for name in re.findall(r"kdump ([a-z-]+)", one.command)))


@pytest.mark.parametrize("block", tour(), ids=verbs)
def test_a_command_prints_what_is_shown(block: list[consoles.Example], tmp_path: Path) -> None:
    consoles.assert_shown(block, *consoles.newcomer(tmp_path))


def test_the_readme_can_be_pasted_twice(tmp_path: Path) -> None:
    folder, variables = consoles.newcomer(tmp_path)
    for block in consoles.of_markdown(README):
        for _ in range(2):
            consoles.assert_shown(block, folder, variables)


def test_the_tutorial_can_be_pasted_after_the_readme_in_the_same_clone_and_again(tmp_path: Path) -> None:
    folder, variables = consoles.newcomer(tmp_path)
    readme, *blocks = tour()
    consoles.assert_shown(readme, folder, variables)
    for _ in range(2):
        for block in blocks:
            consoles.assert_shown(block, folder, variables)
    consoles.assert_shown(readme, folder, variables)


def test_readme_and_tutorial_show_every_command() -> None:
    commands = [example.command for block in tour() for example in block]
    assert [name for name in COMMANDS if not any(f"kdump {name}" in command for command in commands)] == []


def test_the_readme_is_two_hundred_lines_at_most() -> None:
    assert len(README.splitlines()) <= 200


def test_the_contents_of_the_readme_lead_to_its_headings() -> None:
    linked = re.findall(r"\]\(#([^)]*)\)", README)
    headings = re.findall(r"(?m)^## (.*)$", README)
    assert linked == [re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings]


@pytest.mark.parametrize("mark", ["install-and-dump", "install-and-test"])
def test_the_readme_has_the_two_commands_of_a_newcomer(mark: str) -> None:
    """`.ci/run` takes them out and runs them in a fresh clone; they name no more than what is in one."""
    lines = README.splitlines()
    at = lines.index(f"<!-- ci: {mark} -->")
    assert lines[at + 1] == "```bash"
    commands = lines[at + 2 : lines.index("```", at)]
    assert commands
    for path in re.findall(r"fixtures/\S+", " ".join(commands)):
        assert (ROOT / path).is_file()


def test_an_installation_has_every_package_and_every_page() -> None:
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    assert setup["packages"] == {"find": {"include": ["kdump*"], "namespaces": False}}
    assert {path.parent for path in PACKAGE.rglob("*.py")} == {path.parent for path in PACKAGE.rglob("__init__.py")}
    files = {
        f"{folder}/{path.name}"
        for folder, patterns in setup["data-files"].items()
        for pattern in patterns
        for path in (PACKAGE.parent if pattern.startswith("kdump/") else ROOT).glob(pattern)
    }
    # the names under which man and the shells look for them
    shells = {"bash-completion/completions/kdump", "zsh/site-functions/_kdump", "fish/vendor_completions.d/kdump.fish"}
    assert files == {f"share/man/man{name[-1]}/{name}" for name in PAGES} | {f"share/{name}" for name in shells}


@pytest.mark.parametrize("number", range(7))
def test_the_examples_in_python_run(number: int) -> None:
    """The manual says what they do; here they do it, on a partition with records of those times and keys."""
    codes = re.findall(r"(?ms)^\.EX\n(.*?)^\.EE$", (MAN / "kdump-python.3").read_text("ascii"))
    assert len(codes) == 7
    partition = str(FIXTURES / "damage" / "intact" / "none" / "logdir" / "plain-0")
    code = f"partition = {partition!r}\n{plain(codes[number])}"
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout or number == 0  # the first is the import alone
    assert "None None" not in done.stdout


def test_the_page_of_the_library_names_what_is_public() -> None:
    text = plain((MAN / "kdump-python.3").read_text("ascii"))
    assert [name for name in kdump.__all__ if name not in text] == []


def test_the_guide_for_developers_says_what_each_folder_is() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    (block,) = re.findall(r"(?ms)^## The picture\n.*?^```\n.*?^```\n.*?^```\n(.*?)^```$", text)
    named = {line.split()[0] for line in block.splitlines()}
    folders = {f"kdump/{path.name}/" for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert folders | {"tests/", "fixtures/", "man/", "packaging/", ".ci/", ".github/"} == {
        name for name in named if name.endswith("/")
    }


def test_the_readme_names_no_place_of_one_machine() -> None:
    texts = [README, *((MAN / name).read_text("ascii") for name in PAGES)]
    for text in texts:
        assert re.search(r"(?<![\w.])/(home|root|work|tmp|Users|shared)/", text) is None


def test_the_readme_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", README)
    assert all((ROOT / target).exists() for target in targets if "://" not in target)
