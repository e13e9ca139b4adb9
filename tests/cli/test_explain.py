"""`kdump explain`: the man pages are its only source, and it needs neither man nor a path to them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import kdump
from kdump.broker.messages import MESSAGES, BrokerMessage, Exactness
from kdump.cli.main import TASKS
from kdump.finding import Code
from kdump.render.text.manual import OTHER_WORDS, RUNBOOKS, _chapters, entries, known_names, runbook, told
from kdump.rows.verdict import Certainty
from tests.support.runs import FIXTURES, run_kdump

PACKAGE = Path(kdump.__file__).parent
IN_THE_TREE = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
PAGES = ("kdump.1", "kdump-findings.7", "kdump-json.5", "kdump-runbooks.7")


def explain(*names: str) -> str:
    run = run_kdump(["explain", *names], FIXTURES)
    assert (run.exit, run.stderr) == (0, b"")
    return run.stdout.decode()


@pytest.mark.parametrize("name", ["X02", "x02", "index-zeros", "INDEX-ZEROS"])
def test_a_finding_is_known_by_code_and_name_in_any_case(name: str) -> None:
    text = explain(name)
    assert text.startswith("X02 index-zeros (warning, or note)\n\n  The offset index ends in zeros")
    assert "\n  Broker: A search meets the zeros" in text
    assert "\n  Now: kdump reindex builds it from the log" in text
    assert "\n    warning X02 index-zeros index-x02-zeros/" in text


@pytest.mark.parametrize("name", ["hiddenRecords", "hiddenrecords"])
def test_a_key_of_json_is_known_with_its_type_and_sentences(name: str) -> None:
    lines = explain(name).splitlines()
    assert lines[:2] == ["hiddenRecords (a key of prediction in JSON)", "  integer"]
    assert "hiddenRecords" in lines[2]


def test_every_key_of_json_is_explained_by_a_sentence_that_names_it() -> None:
    """But for those of kdump cluster, which are fields of Kafka's own records: their type says of which."""
    unexplained = []
    for name in known_names():
        for block in "\n\n".join(entries(name) or runbook(name)).split("\n\n"):
            heading, *lines = block.splitlines()
            said = " ".join(lines[1:])
            key = re.match(r"(\w+) \(a key of \w+ in JSON\)", heading)
            if key and key[1] != "type" and not re.search(rf"\b{key[1]}\b|fields of \w+Record|\(\w+Record\)", said):
                unexplained.append(heading)
    assert unexplained == []


def test_a_key_of_several_types_and_a_word_that_is_both_show_all() -> None:
    headings = [line for line in explain("timestamp").splitlines() if line and line[0] != " "]
    assert headings[0] == "B10 timestamp (warning)"
    assert "timestamp (a key of record in JSON)" in headings
    assert "timestamp (a key of location in JSON)" in headings


def test_a_code_may_lack_its_zero() -> None:
    assert explain("b1") == explain("B01")


@pytest.mark.parametrize("word", ["SOUND", "WARNING", "DAMAGED", "LOST", "UNREAD", *(one.value for one in Certainty)])
def test_a_word_that_text_prints_is_explained(word: str) -> None:
    assert f"{word} (a word of text)\n" in explain(word)


@pytest.mark.parametrize(
    ("key", "in_json"), [("lost_records", "recordsLost"), ("hidden_records", "hiddenRecords"), ("isvalid", "isvalid")]
)
def test_a_key_of_text_is_explained_by_that_of_json(key: str, in_json: str) -> None:
    assert explain(key).startswith(f"{in_json} (a key of ")


def test_without_a_name_every_code_and_every_runbook_is_listed() -> None:
    findings, runbooks = explain().split("\n\n")
    assert [line.split(" (")[0] for line in findings.splitlines()] == [f"{code.name} {code.slug}" for code in Code]
    assert runbooks.splitlines() == [f"{name} (a runbook)" for name in RUNBOOKS]


def test_a_type_of_json_names_its_keys() -> None:
    keys = "type, option, n, partitions, rank, condition, command, why, keeps, loses, bytes"
    assert f"Keys: {keys}." in " ".join(explain("step").split())


def test_a_code_and_its_name_as_they_stand_in_a_finding_are_told_once() -> None:
    assert explain("B01", "crc-mismatch", "b1") == explain("B01")
    assert explain("B10", "timestamp") == explain("timestamp")


def test_several_are_told_in_the_order_of_the_question() -> None:
    text = explain("X03", "F01")
    assert text.index("X03 index-order") < text.index("F01 odd-name")


@pytest.mark.parametrize("code", Code)
def test_every_code_is_explained_with_what_a_broker_does_and_what_to_do(code: Code) -> None:
    lines = "\n\n".join(entries(code.name)).splitlines()
    assert re.fullmatch(rf"{code.name} {code.slug} \({code.severity.value}(, or .+)?\)", lines[0])
    assert any(line.startswith("  Broker: ") for line in lines)
    assert any(line.startswith("  Now: ") for line in lines)
    assert all(len(line) <= 80 or line.startswith("    ") for line in lines)


def test_an_example_is_marked_as_one() -> None:
    lines = explain("B01").splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("    error B01 "))
    assert lines[at - 1] == "  An example, with other files than yours:"
    assert ("An example, with other files than yours:", False) in told("B01")


def test_all_that_is_known_is_explained_without_marks_of_the_page() -> None:
    names = known_names()
    assert {"recordsLost", "loss", "B01"} <= set(names)
    for name in names:
        text = "\n\n".join(entries(name) or runbook(name))
        assert text
        assert "\\" not in text.replace("\\u", "")
        assert "\x01" not in text


@pytest.mark.parametrize(("name", "near"), [("hidenRecords", "hiddenRecords"), ("crc-mismach", "crc-mismatch")])
def test_what_is_not_known_is_a_wrong_use_with_the_nearest_and_nothing_else(name: str, near: str) -> None:
    run = run_kdump(["explain", "X02", name], FIXTURES)
    assert (run.exit, run.stdout) == (2, b"")
    assert f"'{name}'; did you mean '{near}'?" in run.stderr.decode()


def test_what_resembles_nothing_is_said_without_a_guess() -> None:
    run = run_kdump(["explain", "qqqqqqqqqqqq"], FIXTURES)
    assert run.exit == 2
    assert b"did you mean" not in run.stderr


def test_in_a_package_the_pages_are_read_from_it_and_in_a_zip_too(tmp_path: Path) -> None:
    """As a wheel or a zipapp has them; modules in a zip have no other files beside them."""
    if not (PACKAGE.parent / "man").is_dir():
        pytest.skip("an installed package shows it with every other test")
    zipped = tmp_path / "kdump.zip"
    with zipfile.ZipFile(zipped, "w") as archive:
        for path in PACKAGE.rglob("*.py"):
            archive.write(path, path.relative_to(PACKAGE.parent))
        for page in PAGES:
            archive.write(PACKAGE.parent / "man" / page, f"kdump/man/{page}")
    script = "from kdump.render.text.manual import entries; print(entries('x02')[0])"
    found = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env={"PYTHONPATH": str(zipped)}, capture_output=True, check=True
    )
    assert found.stdout.decode().rstrip("\n") == entries("X02")[0]


def test_a_build_puts_the_pages_into_the_package(tmp_path: Path) -> None:
    root = PACKAGE.parent
    if not (root / "setup.py").is_file():
        pytest.skip("not a checkout")
    pytest.importorskip("Cython")
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(root / name, tmp_path / name)
    shutil.copytree(root / "man", tmp_path / "man")
    (tmp_path / "kdump").mkdir()
    shutil.copyfile(root / "kdump" / "__init__.py", tmp_path / "kdump" / "__init__.py")
    command = [sys.executable, "setup.py", "-q", "build_py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    for page in PAGES:
        (built,) = tmp_path.glob(f"build/lib*/kdump/man/{page}")
        assert built.read_bytes() == (root / "man" / page).read_bytes()


@pytest.mark.parametrize("message", MESSAGES, ids=lambda one: one.pattern[:30])
def test_each_message_leads_to_findings_a_command_and_a_runbook_that_are_there(message: BrokerMessage) -> None:
    assert set(message.findings.split()) <= {code.name for code in Code}
    assert message.runbook in ("", *RUNBOOKS)
    assert message.command[0] in {name for group in TASKS.values() for name in group}
    assert message.means[0].islower() or message.means.startswith("meta.properties")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "Corrupt index found, index file (x.index) has non-zero size but the last offset is 0",
            ("X07", "corrupt-index"),
        ),
        (
            "ERROR Error while appending: java.io.IOException: No space left on device",
            ("kdump du", "disk-full"),
        ),
        ("Malformed line in checkpoint file [recovery-point-offset-checkpoint]: \0\0", ("K03 K04",)),
        ("Inconsistent snapshot state: there must be a snapshot at an offset larger then", ("L18",)),
        ("Found directory /data/lost+found, 'lost+found' is not in the form of topic-partition", ("F11",)),
        ("Received exception when fetching the next record from t-0. If needed, please seek past", ("find-offset",)),
        ("Duplicate log directories found: /a/t-0, /b/t-0!", ("F12",)),
        ("Error while reading partition metadata file /a/t-0/partition.metadata", ("K05",)),
    ],
)
def test_a_line_of_a_broker_leads_to_what_it_means(line: str, words: tuple[str, ...]) -> None:
    text = explain(line)
    assert "(a message of brokers, Kafka " in text
    assert [word for word in words if word not in text] == []


@pytest.mark.parametrize("name", RUNBOOKS)
def test_a_runbook_is_printed_by_its_name(name: str) -> None:
    assert explain(name).startswith(f"{RUNBOOKS[name]}\n\n  Symptom:")


def test_each_runbook_of_the_manual_has_a_name() -> None:
    others = {"NAME", "DESCRIPTION", "SEE ALSO"}
    assert set(_chapters("kdump-runbooks.7", "SH")) - others == set(RUNBOOKS.values())


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["topics"], "kdump cluster LOGDIR"),
        (["consumer-groups"], "kdump groups LOGDIR"),
        (["README.md"], "kdump verify README.md, or kdump dump README.md"),
        (["dump", "--count", "x"], "--stats counts batches and records"),
        (["dump", "--max-records", "3", "x"], "--limit N"),
        (["dump", "--print-headers", "x"], "--print-data-log shows headers too"),
    ],
)
def test_words_of_newcomers_lead_to_the_right_command(words: list[str], meant: str) -> None:
    run = run_kdump(words, FIXTURES)
    assert (run.exit, meant in run.stderr.decode()) == (2, True)


# --- which message of several, and by which words -------------------------------------------------------------------
FULL = "java.io.IOException: No space left on device"
OFFLINE = "(org.apache.kafka.storage.internals.log.LogDirFailureChannel)"


def headings(text: str) -> list[str]:
    """The words that each message of a text was known by."""
    return [line.split("' (")[0][1:] for line in explain(text).splitlines() if line.startswith("'")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"ERROR Error while appending records to o-0 in dir /k {OFFLINE} {FULL}", ["No space left on device"]),
        (f"Error while writing to checkpoint file /k/recovery-point {OFFLINE} {FULL}", ["No space left on device"]),
        (f"Error while writing partition metadata file /k/o-0/partition.metadata {FULL}", ["No space left on device"]),
        (f"Error while flushing log for o-0 in dir /k {OFFLINE} Input/output error", ["Input/output error"]),
        (f"Error while writing to /k/quorum-state {FULL}", ["No space left on device"]),
        (f"Encountered fatal fault: Error starting LogManager\n Caused by: {FULL}", ["No space left on device"]),
        (
            f"Error in cleaner: Marking its partition (o-0) as uncleanable: {FULL}",
            ["No space left on device", "Error in cleaner"],
        ),
    ],
)
def test_a_cause_comes_first_and_what_only_says_that_something_failed_is_not_shown(text: str, words: list[str]) -> None:
    assert headings(text) == words


def test_every_message_that_names_no_cause_gives_way_to_one() -> None:
    vague = [one for one in MESSAGES if one.exactness > Exactness.EFFECT]
    assert {one.exactness for one in vague} == {Exactness.PLACE, Exactness.FAILURE}
    assert all(re.search(r"cause|cannot be|malformed|ends before|own log", one.means) for one in vague)


def test_the_words_are_those_of_the_text_whole_and_on_one_line() -> None:
    assert headings("xx orgLogDirFailureChannel yy") == ["orgLogDirFailureChannel"]
    assert headings("no  SPACE\nleft on device") == ["no SPACE left on device"]
    (words,) = headings(f"Found directory /{'d' * 90} is not in the form of topic-partition or")
    assert (len(words), words[-3:]) == (60, "...")
    assert headings("Failed to load /\x1b[2Jx during broker startup") == [
        r"Failed to load /\x1b[2Jx during broker startup"
    ]


@pytest.mark.parametrize("part", ["LogManager", "ReplicaManager", "GroupCoordinator", "Share coordinator"])
def test_a_part_that_does_not_start_leads_to_the_start_and_not_to_the_metadata_log(part: str) -> None:
    text = explain(f"ERROR Encountered fatal fault: Error starting {part} (o.ProcessTerminatingFaultHandler)")
    assert text.startswith(f"'Error starting {part}' (")
    assert "metadata" not in text
    assert "  Command: kdump verify LOGDIR --start auto\n  Runbook: kdump explain not-starting" in text


def test_a_fault_of_metadata_is_one_of_the_metadata_log() -> None:
    for text in ("Encountered metadata loading fault: Unhandled", "Encountered initial broker metadata loading fault"):
        assert "metadata log" in explain(text)


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        ("Failed to load /k during broker startup", "meta.properties of this log directory is there"),
        ("Failed to create data directory /k", "a log directory cannot be made"),
        ("/k is not a readable log directory.", "a log directory cannot be made"),
        ("", "a log directory cannot be made or read, or is no directory: the cause follows"),
    ],
)
def test_a_log_directory_that_is_not_taken_is_not_one_without_meta_properties(cause: str, said: str) -> None:
    """LogManager.createAndValidateLogDirs: the directory, or what reading its meta.properties has failed with."""
    text = " ".join(explain(f"Failed to create or validate data directory /k {OFFLINE} {cause}").split())
    assert text.count("(a message of brokers") == 1
    assert said in text
    assert "is missing" not in text


@pytest.mark.parametrize(
    "line",
    [
        "[BrokerServer id=1] Fatal error during broker startup. Prepare to shutdown (kafka.server.BrokerServer)",
        "[KafkaServer id=1] Fatal error during KafkaServer startup. Prepare to shutdown",
        "ERROR Exiting Kafka due to fatal exception during startup. (kafka.Kafka$)",
        "Encountered quorum controller fatal fault: x",
        "[SharedServer id=1] Got exception while starting SharedServer",
    ],
)
def test_a_line_without_a_cause_sends_the_reader_to_the_lines_around_it(line: str) -> None:
    text = " ".join(explain(line).split())
    assert "the cause is in the lines below, or above; give these to kdump explain too" in text


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("Unexpected error INCONSISTENT_CLUSTER_ID in FETCH response", "kdump verify LOGDIR LOGDIR_OF_THE_OTHER"),
        ("Unexpected error INCONSISTENT_CLUSTER_ID in VOTE response", "kdump verify LOGDIR LOGDIR_OF_THE_OTHER"),
        ("Invalid cluster.id in: /k/meta.properties. Expected a, but read b", "kdump verify server.properties"),
        ("Stored node id 1 doesn't match previous node id 2 in /k", "kdump verify server.properties"),
        ("Configured broker.id 1 doesn't match stored broker.id Some(2)", "kdump verify server.properties"),
        ("kafka.common.InconsistentClusterIdException: The Cluster ID", "kdump verify server.properties"),
        ("Duplicate directory ID x found. It was the ID of /a", "kdump verify server.properties"),
    ],
)
def test_ids_that_differ_lead_to_a_command_that_reads_both(line: str, command: str) -> None:
    assert f"  Command: {command}\n" in explain(line)


def test_lines_come_from_standard_input_by_the_name_of_it_alone(tmp_path: Path) -> None:
    def run(*args: str, given: bytes) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-P", "-m", "kdump", "explain", *args]
        return subprocess.run(command, input=given, cwd=tmp_path, env=IN_THE_TREE, capture_output=True, check=False)

    assert run("-", given=f"INFO x\nERROR y \xff\n {FULL}\n".encode("latin-1")).stdout.startswith(b"'No space left on")
    assert run(given=FULL.encode()).stdout.startswith(b"F01 odd-name")
    assert b"standard input is empty" in run("-", given=b" \n").stderr
    many = run("-", given=b"offset " * 10_000)
    assert (many.returncode, b"more than 65,536 bytes" in many.stderr) == (2, True)


def test_a_long_text_that_is_not_known_is_said_in_short() -> None:
    run = run_kdump(["explain", "qq zz " * 40], FIXTURES)
    assert run.exit == 2
    assert run.stderr.count(b"qq") <= 10


@pytest.mark.parametrize("word", OTHER_WORDS)
def test_a_word_that_people_type_leads_to_names_of_the_manual(word: str) -> None:
    run = run_kdump(["explain", word], FIXTURES)
    hint = f"'{word}'; see: kdump explain {' '.join(OTHER_WORDS[word])}\n"
    assert (run.exit, run.stderr.decode().endswith(hint)) == (2, True)
    assert explain(*OTHER_WORDS[word])


def test_a_runbook_that_is_mistyped_is_named() -> None:
    assert b"did you mean 'topic-deleted'?" in run_kdump(["explain", "topic-delete"], FIXTURES).stderr


def test_the_man_page_names_every_runbook() -> None:
    page = (FIXTURES.parent / "man" / "kdump-explain.1").read_text("ascii").replace("\\-", "-")
    assert [name for name in RUNBOOKS if not re.search(rf"\b{name}\b", page)] == []


@pytest.mark.parametrize(
    ("code", "heading"),
    [
        ("O07", "O07 segment-gap (note, or error or warning)"),
        ("K10", "K10 clusters-differ (warning, or error or note)"),
        ("P01", "P01 sequence"),
        ("B01", "B01 crc-mismatch (error)"),
    ],
)
def test_each_severity_that_a_finding_may_have_is_said(code: str, heading: str) -> None:
    assert explain(code).startswith(heading)


def test_no_case_has_a_severity_that_the_table_does_not_know() -> None:
    others = set()
    for path in FIXTURES.rglob("expect.json"):
        for found in json.loads(path.read_text()).get("findings", ()):
            if found["severity"] not in {one.value for one in Code[found["code"]].severities}:
                others.add((found["code"], found["severity"]))
    assert others == set()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("disk full", "DISK"),
        ("No space left", "disk-full"),
        ("Input/output", "F06"),
        ("less than the minimum record overhead (14)", "L03"),
        ("Malformed line in checkpoint file", "refused-checkpoints"),
        ("No meta.properties found in", "K03"),
    ],
)
def test_a_part_of_a_message_or_the_words_of_a_runbook_lead_there(text: str, words: str, tmp_path: Path) -> None:
    run = run_kdump(["explain", text], tmp_path)
    assert run.exit == 0
    assert words in run.stdout.decode()
