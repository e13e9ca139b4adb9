"""Items of verify that no fixture shows: with hostile text in every place, and of a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Code, Finding
from kdump.format.kinds import FileKind
from kdump.item import Checked, CheckedFile, PartitionChecked, SegmentChecked
from kdump.rows.steps import NONE, Rank, Step
from kdump.rows.verdict import Certainty, LoadFailure, Loss, Prediction, SegmentFate
from kdump.storage.file_source import OpenFailure
from kdump.words.command import ShellCommand, command_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.item import Item

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


def hostile(text: str) -> list[Item]:
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
            repair=ShellCommand(text),
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
                path=directory,
                partition=f"{name}-0",
                start=start,
                broker="4.4",
                loads=loads,
                stops=stops,
                reason=why,
                reason_class=java,
                log_start_offset=0,
                log_end_offset=5,
                bytes_lost=7,
                records_lost=1,
                assumed=(text,),
                segments=(SegmentFate(0, "truncate", 10),),
                hidden_records=1,
                reused_offsets=(5, 9),
                cause=None if loads else LoadFailure(text, text),
            )
            for start, (loads, stops, why, java) in zip(("clean", "unclean"), starts, strict=True)
        ],
        Step(1, 1, (text,), Rank.RECOMMENDED, None, ShellCommand(text), text, NONE, NONE, 7),
        Step(2, 1, (text,), Rank.IF, text, None, text),
    ]


def large(partitions: int, damaged: int, findings: int) -> Iterator[Item]:
    """A run with so many partitions, and so many findings in those that are damaged."""
    each, extra = divmod(findings, damaged)
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
                    repair=command_line("reindex", file),
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
                path=path,
                partition=f"orders-{at}",
                start=start,
                broker="4.4",
                loads=True,
                stops=None,
                reason=None,
                reason_class=None,
                log_start_offset=1200,
                log_end_offset=40_112 if is_cut else 58_410,
                bytes_lost=214_000_000 * is_cut,
                records_lost=18_298 * is_cut,
                assumed=("index.interval.bytes=4096 (by the stored indexes)",),
                segments=segments,
                hidden_records=0,
                reused_offsets=(40_112, 58_409) if is_cut else None,
            )
    for at in range(damaged):
        path = f"/var/lib/kafka/data/orders-{at}"
        where = f"B01 crc-mismatch at byte 51380224 of {path}/{31007:020}.log"
        how = "stop the broker, move the directory out of the log.dir, and let it be replicated again"
        restored = f"restore {path} from another replica, if one is sound ({where}): {how}"
        saved = "writes all that is intact, what lies behind the damage too, to a new directory"
        cut = f"cuts the log at the first damage, {where} (offset 40112): all that is intact behind it goes too"
        salvage = command_line("salvage", path, "--to", "DIR")
        yield Step(1, 1, (path,), Rank.RECOMMENDED, None, None, restored)
        yield Step(2, 1, (path,), Rank.IF, "there is no other replica", salvage, saved)
        yield Step(3, 1, (path,), Rank.LAST_RESORT, None, command_line("truncate", path, "--at-damage"), cut)
