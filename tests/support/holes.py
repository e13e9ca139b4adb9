"""Missing offsets, judged many times: healthy directories with holes, damaged ones, and what verify makes of them.

    python -m tests.support.holes --runs 2000 --seed 0 --jobs 2

Each run has a number, from `--seed` on; it decides everything. Even numbers are healthy: brokers made their holes. Odd
ones are damaged. What does not hold is printed with its number, so that `--seed N --runs 1 --keep DIR` leaves that
directory in DIR. `--kinds` makes the directories only, and counts them. Exit status 1 when something does not hold.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.support.hole_damages import DAMAGES
from tests.support.hole_histories import HISTORIES, Made
from tests.support.hole_truth import Truth, truth_of
from tests.support.partitions import Files, checkpoint, meta, write
from tests.support.runs import run_kdump

if TYPE_CHECKING:
    from collections.abc import Iterator

Row = dict[str, Any]
_TOGETHER = 50  # runs that a process makes at a time
_MEMORY = Path("/dev/shm")
_SETTINGS = "given.properties"


@dataclass
class Case:
    """A directory to judge.

    Args:
        kinds: what happened to each partition.
        files: content by path.
        args: of verify, besides the format.
        truths: what must be said of each partition, by its path.
        is_healthy: nobody lost anything.
    """

    kinds: list[str]
    files: Files = field(default_factory=dict)
    args: list[str] = field(default_factory=list)
    truths: dict[str, Truth] = field(default_factory=dict)
    is_healthy: bool = True


class Outcome(NamedTuple):
    """A run: what happened, the rows that decided, whether the rules leave no choice, what does not hold."""

    seed: int
    kinds: list[str]
    rows: list[str]
    is_clear: bool
    faults: list[str]


# --- making -------------------------------------------------------------------------------------------------
def case_of(seed: int) -> Case:
    """Make the case of a number: an even one is healthy."""
    chance = Random(seed)
    case = Case([], is_healthy=seed % 2 == 0)
    count = chance.choice((1, 1, 2, 3))
    made = [chance.choice(HISTORIES)(chance, f"topic{number}") for number in range(count)]
    alone = next((one for one in made if one.is_alone), None)
    made = made if alone is None else [alone]
    if not case.is_healthy:
        made[0].kind += f" / {_damage(chance, made[0])}"
        made = made[:1] if made[0].settings else made  # what the user says is said of all topics
    made += [companion for one in made for companion in one.companions]
    case.kinds = [one.kind for one in made]
    _lay(case, made, chance)
    for one in made:
        case.truths[one.path] = truth_of(one.files, one.known)
    return case


def _damage(chance: Random, made: Made) -> str:
    """Damage a partition in a way that finds something to damage."""
    for damage in chance.sample(DAMAGES, len(DAMAGES)):
        what = damage(chance, made)
        if what != "nothing":
            return what
    return "nothing"


def _lay(case: Case, made: list[Made], chance: Random) -> None:
    """Put partitions into log directories, with what lies beside them."""
    for one in made:
        case.files |= {f"{one.path}/{path}": data for path, data in one.files.items()}
        case.files |= one.beside
    for number, log_dir in enumerate(sorted({one.log_dir for one in made if one.has_log_dir})):
        inside = [one for one in made if one.log_dir == log_dir]
        is_clean = all(one.is_clean for one in made)
        case.files |= {f"{log_dir}/{path}": data for path, data in _log_dir(inside, number, is_clean, chance).items()}
    case.args = sorted({path for one in made for path in one.asked})
    for setting in sorted({setting for one in made for setting in one.settings}):
        if chance.random() < 0.5:
            case.args += ["--set", setting]
        else:
            case.files[_SETTINGS] = f"{setting}\n".encode()
            case.args += ["--config", _SETTINGS]
    if _SETTINGS not in case.files and chance.random() < 0.1:  # of a broker: says nothing of a topic
        case.files[_SETTINGS] = b"log.cleanup.policy=delete\nbroker.id=1\n"
        case.args += ["--config", _SETTINGS]


def _log_dir(made: list[Made], number: int, is_clean: bool, chance: Random) -> Files:
    """What lies in a log directory besides its partitions."""
    files: Files = {
        "meta.properties": meta(1) + f"directory.id=AAAAAAAAAAAAAAAAAAAAA{'Qgw'[number]}\n".encode(),
        "recovery-point-offset-checkpoint": checkpoint(*((one.topic, 0, one.recovery_point) for one in made)),
        "replication-offset-checkpoint": checkpoint(*((one.topic, 0, one.high_watermark) for one in made)),
        "log-start-offset-checkpoint": checkpoint(
            *((one.topic, 0, one.known.start) for one in made if one.known.start is not None)
        ),
    }
    entries = [(one.topic, 0, one.entry) for one in made if one.entry is not None]
    if entries or chance.random() < 0.8:
        files["cleaner-offset-checkpoint"] = checkpoint(*entries)
    if is_clean:
        files[".kafka_cleanshutdown"] = b'{"version":0,"brokerEpoch":-1}'
    return files


# --- judging ------------------------------------------------------------------------------------------------
def judge(root: Path, case: Case) -> list[str]:
    """Lay a case down in a directory, ask verify, and say what does not hold."""
    write(root, case.files)
    run = run_kdump(["verify", "--format", "json", *case.args], root)
    if run.stderr:
        return [f"stderr: {run.stderr.decode('utf-8', 'backslashreplace')[-300:]}"]
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    found = [f"exit {run.exit}"] if case.is_healthy and run.exit else []
    for path, truth in case.truths.items():
        here = [row for row in rows if str(row.get("file") or "").startswith(f"{path}/") or row.get("file") == path]
        judged = (truth, here) if case.is_healthy else _besides_leftovers(truth, here)
        found += [f"{path}: {fault}" for fault in _faults(*judged)]
        if truth.is_lost and run.exit != 3:
            found.append(f"{path} is LOST, and the exit status is {run.exit}")
    found += _loud(rows, is_ahead=any(truth.above for truth in case.truths.values())) if case.is_healthy else ()
    found += _miscounted(rows, is_known=any("0" in hole.rows for truth in case.truths.values() for hole in truth.holes))
    if any(hole.rows == {"1b"} for truth in case.truths.values() for hole in truth.holes):
        found += ["summary: recordsUnknown 0, and bytes are missing in one of several holes"] * (_unknown(rows) == 0)
    if case.is_healthy and any(truth.is_lost for truth in case.truths.values()):
        found.append("the generator says LOST of a healthy directory")
    return found


def _loud(rows: list[Row], *, is_ahead: bool) -> Iterator[str]:
    """What nothing healthy may show; checkpoints may be ahead of a log that was cut behind a hole."""
    quiet = {"L19", "K01", "K04", "S02"} if is_ahead else {"L19"}
    for row in rows:
        if row["type"] == "finding" and row["severity"] not in {"note", "warning" if row["code"] in quiet else "note"}:
            yield f"{row['severity']} {row['code']} at {row['file']}: {row['message']}"


def _miscounted(rows: list[Row], *, is_known: bool) -> Iterator[str]:
    """What the summary counts otherwise than the rows; what is known from a salvage need not count."""
    losses = [row for row in rows if row["type"] == "loss"]
    (summary,) = [row for row in rows if row["type"] == "summary"]
    for key, certainties in (("offsetsLost", {"lost", "doubtful"}), ("offsetsUnexplained", {"unexplained"})):
        count = sum(row["lastOffset"] - row["offset"] + 1 for row in losses if row["certainty"] in certainties)
        if summary.get(key) != count and not (is_known and key == "offsetsLost"):
            yield f"summary: {key} {summary.get(key)}, and the rows have {count}"


def _besides_leftovers(truth: Truth, rows: list[Row]) -> tuple[Truth, list[Row]]:
    """What is left to judge where leftovers show that a whole segment is gone: no rule of holes overrules them."""
    told = [row for row in rows if row["type"] == "loss" and "F08" in row["because"]]
    ranges = [(row["offset"], row["lastOffset"]) for row in told]
    holes = [
        hole for hole in truth.holes if not any(first <= hole.last and hole.first <= last for first, last in ranges)
    ]
    return replace(truth, holes=holes), [row for row in rows if row not in told]


def _unknown(rows: list[Row]) -> int:
    return sum(row["recordsUnknown"] for row in rows if row["type"] == "summary")


def _faults(truth: Truth, rows: list[Row]) -> Iterator[str]:
    """What the rows of a partition say otherwise than the rules."""
    findings = [row for row in rows if row["type"] == "finding"]
    said: dict[int, tuple[str, list[str]]] = {}
    for row in (row for row in rows if row["type"] == "loss"):
        for offset in range(row["offset"], row["lastOffset"] + 1):
            if offset in said:
                yield f"offset {offset} is in two rows"
            said[offset] = row["certainty"], row["because"]
    for hole in truth.holes:
        got = [said.pop(offset, ("absent", [])) for offset in range(hole.first, hole.last + 1)]
        if not {certainty for certainty, _ in got} <= hole.certainties:
            shown = " and ".join(sorted({certainty for certainty, _ in got}))
            yield f"{hole.first}..{hole.last} is {shown}, not {_rows(hole.rows)}"
        wrong = [because for _, because in got if len(hole.rows) == 1 and not _is_because(min(hole.rows), because)]
        if wrong:
            yield f"{hole.first}..{hole.last}, {_rows(hole.rows)}, is so because of {wrong[0]}"
    for first, last, certainties in truth.above:
        got = [said.pop(offset, ("absent", [])) for offset in range(first, last + 1)]
        if certainties and not {certainty for certainty, _ in got} <= certainties:
            shown = " and ".join(sorted({certainty for certainty, _ in got}))
            yield f"{first}..{last}, above the last batch, is {shown}, not {' or '.join(sorted(certainties))}"
    if said:
        yield f"{min(said)}..{max(said)} ({len(said)}): {said[min(said)]}, and no hole is there"
    yield from _wrong_codes(truth, findings)


def _is_because(row: str, because: list[str]) -> bool:
    """Whether the codes of a loss fit the row that decided."""
    unfit = {"L17", "L19"} - {{"7": "L17", "6": "L19", "2": "L17"}.get(row, "")}
    return not unfit & set(because) and (row != "1b" or "X04" in because)


def _rows(rows: frozenset[str]) -> str:
    return f"row {' or '.join(sorted(rows))}"


def _wrong_codes(truth: Truth, findings: list[Row]) -> Iterator[str]:
    count = Counter(row["code"] for row in findings)
    for code, allowed in (("L17", truth.notes), ("L19", truth.warnings)):
        if count[code] not in allowed:
            yield f"{code} is told {count[code]} times, not {' or '.join(map(str, sorted(allowed)))}"
    severities = {"L17": "note", "L19": "warning", "A07": "error", "F14": "error"}
    for row in findings:
        if row["severity"] != severities.get(row["code"], row["severity"]):
            yield f"{row['code']} is of severity {row['severity']}"
    if bool(count["A07"]) != bool(truth.markers) and not (count["A07"] and truth.markers_above):
        yield f"A07 is told {count['A07']} times, and markers in holes are {truth.markers}"
    if any(said == {"lost"} for _, _, said in truth.above) and not count["F14"]:
        yield "no F14, and an index knows of offsets above the last batch"
    loud = [row for row in findings if row["code"] in ("O04", "O07") and row["severity"] == "error"]
    if any(hole.rows <= {"1", "1b", "5"} for hole in truth.holes) and not loud:
        yield "neither O04 nor O07 is an error"
    if not any(hole.rows & {"1", "1b", "5"} for hole in truth.holes) and not truth.above and loud:
        yield f"{loud[0]['code']} is an error at {loud[0]['file']}"
    rows = frozenset[str]().union(*(hole.rows for hole in truth.holes))
    cause = {frozenset("7"): "L17", frozenset("6"): "L19"}.get(rows)
    for row in findings:
        if cause and not truth.above and row["code"] in ("O04", "O07") and row["because"] != cause:
            yield f"{row['code']} counts under {row['because']}, not {cause}"


# --- runs ---------------------------------------------------------------------------------------------------
def check(root: Path, seed: int, *, only_made: bool = False) -> Outcome:
    """Make a case and judge what verify says of it.

    Args:
        root: a directory for it, that is made.
        seed: decides everything.
        only_made: do not judge.
    """
    case = case_of(seed)
    faults = [] if only_made else judge(root, case)
    truths = case.truths.values()
    rows = [" or ".join(sorted(hole.rows)) for truth in truths for hole in truth.holes]
    rows += [" or ".join(said) or "open" for truth in truths for _, _, said in truth.above]
    return Outcome(seed, case.kinds, rows, all(truth.is_clear for truth in truths), faults)


def many(seeds: range, *, only_made: bool = False) -> list[Outcome]:
    """Make runs in a directory in memory that is gone afterwards."""
    found = []
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        for seed in seeds:
            root = Path(folder, str(seed))
            found.append(check(root, seed, only_made=only_made))
            shutil.rmtree(root, ignore_errors=True)
    return found


def main() -> int:
    """Make the runs that were asked for; print what does not hold and what all came to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="number of the first run")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--keep", type=Path, help="a new directory for the files of one run")
    parser.add_argument("--kinds", action="store_true", help="make the directories and count them; judge nothing")
    given = parser.parse_args()
    if given.keep is not None:
        outcome, case = check(given.keep, given.seed), case_of(given.seed)
        print(*outcome.kinds, f"kdump verify {' '.join(case.args)}", *case.truths.items(), *outcome.faults, sep="\n")
        return int(bool(outcome.faults))
    seeds = range(given.seed, given.seed + given.runs)
    pieces = [seeds[at : at + _TOGETHER] for at in range(0, len(seeds), _TOGETHER)]
    bad, clear = 0, 0
    kinds: Counter[str] = Counter()
    rows: Counter[str] = Counter()
    with ProcessPoolExecutor(given.jobs) as pool:
        jobs = [pool.submit(many, piece, only_made=given.kinds) for piece in pieces]
        for one in (one for job in jobs for one in job.result()):
            for kind in one.kinds:
                history, _, damage = kind.partition(" / ")
                kinds.update([f"damaged: {damage}" if damage else f"healthy: {history}"])
            rows.update(one.rows)
            clear += one.is_clear
            if one.faults:
                bad += 1
                print(f"seed {one.seed}: {'; '.join(one.kinds)}", *one.faults, sep="\n    ", flush=True)
    for title, counted in (("partitions", kinds), ("holes by the row that decides", rows)):
        print(title, *(f"{count:8} {kind}" for kind, count in sorted(counted.items())), sep="\n")
    print(f"{len(seeds)} runs: {bad} were wrong; in {len(seeds) - clear} the rules leave a choice")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
