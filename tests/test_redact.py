"""What `--redact` hides: a planted secret of each kind is in no byte of any output, and all else is as without it."""

from __future__ import annotations

import json
import re
import struct
from typing import TYPE_CHECKING

import pytest
from pyarrow import parquet

from kdump import item, redact
from kdump.export.redact import redacted  # noqa: F401 (held here: every table below goes through it)
from kdump.finding import Code, Finding
from kdump.redact import Redactor
from kdump.row import Row
from kdump.rows import carved, coordinators, files, lookup, plan, salvaged, usage, verdict
from kdump.value import Value
from kdump.words.command import ShellCommand, command_line
from tests.support import partitions
from tests.support.coordinator_records import at, commit, text, transaction
from tests.support.runs import Run, run_kdump
from tests.support.segments import GZIP, TRANSACTIONAL, Record, batch, message
from tests.support.shells import HOSTILE

if TYPE_CHECKING:
    from pathlib import Path

TOPIC, GONE, LISTED = "ndl.topic_a", "ndl-topic-gone", "ndl.listed"
NEEDLES = {
    "key": "ndlKey",
    "value": "ndlValue",
    "header": "ndlHeader",
    "group": "ndl group x",
    "client": "ndlClient",
    "host": "ndlHost",
    "member": "ndlMember",
    "transaction": "ndlTxn",
    "principal": "ndlPrincipal",
    "setting": "ndlSetting",
    "metadata": "ndlMeta",
    "topic": TOPIC,
    "gone": GONE,
    "listed": LISTED,
}
NEEDLE = re.compile(b"ndl", re.IGNORECASE)
KEY = b"k" * 32


def compact(value: str) -> bytes:
    """A string of a flexible message."""
    return bytes([len(value) + 1]) + value.encode()


def of_metadata(kind: int, *fields: bytes) -> Record:
    """A record of the metadata log, version 0 of its message."""
    return Record(bytes([1, kind, 0]) + b"".join(fields) + b"\0", None)


def classic(group: str) -> Record:
    """A classic group with a member of a client at a host."""
    value = struct.pack(">h", 0) + text("consumer") + struct.pack(">i", 3) + text("range") + text("ndlMember-1")
    value += struct.pack(">i", 1) + text("ndlMember-1") + text("ndlClient") + text("/ndlHost")
    subscription = b"ndlValue in a subscription"
    value += struct.pack(">iii", 1, len(subscription), 0)[:8] + subscription + struct.pack(">i", 0)
    return Record(value, struct.pack(">h", 2) + text(group))


@pytest.fixture(scope="module")
def logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory with a secret of each kind, and damage that makes messages about them."""
    record = Record(b"ndlValue 1", b"ndlKey 1", [(b"shown", b"ndlHeader"), (b"empty", b""), (b"none", None)])
    good = batch(0, [record, Record(None, b"ndlKey 1"), Record(b"", None)])
    bad = bytearray(batch(3, [record]))
    bad[17] ^= 1
    open_one = batch(5, [record], flags=TRANSACTIONAL, producer=(7, 0, 0))
    log = [good, bytes(bad), batch(4, [record], codec=GZIP), open_one]
    files = {
        **partitions.below(f"{TOPIC}-0", partitions.segment(0, log)),
        f"{TOPIC}-0/{partitions.name(6)}": batch(6, [record]) + b"\0" * 30 + b"ndlValue torn",
        f"{TOPIC}-0/{partitions.name(9)}.copy": good,
        f"{TOPIC}-0/leader-epoch-checkpoint": partitions.checkpoint((0, 0), ("ndlValue", 1)),
        **partitions.below(f"{GONE}-1.{'0a' * 16}-delete", partitions.segment(0, [good])),
        f"{GONE}-2/{partitions.name(0)}": message(1, 0, b"ndlValue", key=b"ndlKey") + message(0, 1, b"ndlValue"),
        f"{GONE}-3.bak/{partitions.name(0)}": good,
        **partitions.below(
            "__consumer_offsets-0",
            partitions.segment(
                0,
                [
                    at(0, 1, commit("ndl group x", 0, 4, topic=TOPIC), classic("ndl group y")),
                    at(2, 2, Record(b"\0\3ndlMeta", b"\0\1" + text("ndl group z") + text(TOPIC) + bytes(4))),
                    at(3, 3, Record(b"\0\0" + struct.pack(">i", 1), struct.pack(">h", 3) + text("ndl group y"))),
                ],
            ),
        ),
        **partitions.below(
            "__transaction_state-0",
            partitions.segment(0, [at(0, 1, transaction("ndlTxn", 7, "Ongoing", {TOPIC: [0]}))]),
        ),
        **partitions.below(
            "__cluster_metadata-0",
            partitions.segment(
                0,
                [
                    batch(
                        0,
                        [
                            of_metadata(18, bytes(16), b"\2", compact(TOPIC), b"\3", compact("User:ndlPrincipal"),
                                        compact("ndlHost"), b"\2\3"),
                            of_metadata(4, b"\2", compact(TOPIC), compact("retention.ms"), compact("ndlSetting")),
                            of_metadata(2, compact(GONE), bytes(16)),
                        ],
                    )
                ],
            ),
        ),
        "recovery-point-offset-checkpoint": partitions.checkpoint((TOPIC, 0, 99), (LISTED, 3, 1), (TOPIC, "ndl")),
        "replication-offset-checkpoint": partitions.checkpoint((TOPIC, 0, 99), (LISTED, 3, 1), (TOPIC, 0, -4)),
        "meta.properties": partitions.meta(1) + b"advertised=ndlHost\n",
        f"{TOPIC}-old": b"ndlValue",
    }  # fmt: skip
    return partitions.write(tmp_path_factory.mktemp("secret") / "ndl.topic_a", files)


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the key."""
    path = tmp_path_factory.mktemp("key") / "key"
    path.write_bytes(KEY)
    path.chmod(0o600)
    return path


def clean(run: Run) -> Run:
    """Assert that a run shows no secret."""
    for shown in (run.stdout, run.stderr):
        found = NEEDLE.search(shown)
        assert found is None, shown[max(0, found.start() - 200) : found.end() + 100]
    assert run.exit not in (1, 2), run.stderr
    return run


DUMPS = [
    [],
    ["--print-data-log"],
    ["--print-data-log", "--skip-record-metadata"],
    ["--print-data-log", "--key-format", "hex", "--value-format", "json"],
    ["--print-data-log", "--key-decoder-class", "org.apache.kafka.tools.api.IntegerDecoder"],
    ["--decoder", "auto"],
    ["--stats"],
    ["--key-regex", "ndlKey", "--print-data-log"],
    ["-j", "2", "--print-data-log"],
]
OTHERS = [
    ["cluster"],
    ["verify"],
    ["verify", "--start", "all"],
    ["verify", "--quiet", "--no-fold", "-j", "2"],
    ["groups"],
    ["groups", "--diff", "1", "2"],
    ["groups", "--at", "2", "--lag"],
    ["transactions"],
    *(["du", "--by", by, "--full-at", "1M"] for by in ("topic", "partition", "key", "group")),
]


@pytest.mark.parametrize("layout", ["text", "lines", "json"])
@pytest.mark.parametrize("options", [["dump", *one] for one in DUMPS] + OTHERS, ids=" ".join)
def test_no_output_has_a_secret(logdir: Path, key: Path, options: list[str], layout: str) -> None:
    if (options[0], layout) == ("dump", "lines"):
        pytest.skip("dump has no lines")
    paths = sorted(str(path) for path in logdir.iterdir()) if options[0] == "dump" else [str(logdir)]
    plain = run_kdump([*options, "--format", layout, *paths], logdir)
    hidden = clean(run_kdump([*options, "--format", layout, "--redact-key", str(key), *paths], logdir))
    assert hidden.exit == plain.exit
    if layout != "text" or options[0] == "dump":  # a token may be longer than a name, and a line has an end
        assert hidden.stdout.count(b"\n") == plain.stdout.count(b"\n")
    assert hidden.stderr.count(b"\n") == plain.stderr.count(b"\n")
    redactor = Redactor(KEY)
    if "--print-data-log" not in options and "auto" not in options:  # names only: each token is that of its name
        known = {redactor.token(one): one for one in (*_names(logdir), *NEEDLES.values())}
        back = re.sub(r"tok-[0-9a-f]{20}", lambda one: known.get(one[0], one[0]), hidden.stdout.decode())
        tokens = set(re.findall(r"tok-[0-9a-f]{20}", back))
        if not tokens and layout in ("lines", "json"):
            assert back.replace('"', "") == plain.stdout.decode().replace('"', "")  # a name with a blank is quoted


def test_the_report_as_html_has_no_secret(logdir: Path, key: Path) -> None:
    words = ["verify", "--format", "html", "--start", "all", "--redact-key", str(key), str(logdir)]
    assert clean(run_kdump(words, logdir)).stdout.count(b"tok-") > 20


def _names(logdir: Path) -> set[str]:
    return {TOPIC, GONE, LISTED, "ndl group x", "ndl group y", "ndl group z", "ndlTxn", logdir.name, "m"}


def test_every_secret_would_be_seen_without(logdir: Path) -> None:
    shown = b"".join(
        run_kdump([*one, *paths], logdir).stdout
        for one, paths in (
            (["dump", "--format", "json", "--print-data-log"], sorted(str(path) for path in logdir.iterdir())),
            (["groups"], [str(logdir)]),
        )
    )
    assert not {name for name, needle in NEEDLES.items() if needle.encode() not in shown} - {"metadata"}


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        *((table, "json") for table in ("batches", "segments", "losses", "usage", "groups", "commits", "open")),
        ("transactions", "json"),
        *((table, kind) for table in ("records", "findings") for kind in ("parquet", "json", "csv")),
    ],
)
def test_no_file_of_an_export_has_a_secret(logdir: Path, key: Path, tmp_path: Path, table: str, kind: str) -> None:
    rows = {}
    for name, options in (("plain", []), ("hidden", ["--redact-key", str(key)])):
        run = run_kdump(
            ["export", str(logdir), "--table", table, "--format", kind, "--to", str(tmp_path / name), *options],
            tmp_path,
        )
        rows[name] = run.stdout
        if options:
            clean(run)
    plain, hidden = (json.loads(rows[name]) for name in ("plain", "hidden"))
    assert {**plain, "unchecked": []} == {**hidden, "unchecked": []}
    assert len(plain["unchecked"]) == len(hidden["unchecked"])
    for path in (tmp_path / "hidden").rglob("*"):
        assert not NEEDLE.search(str(path.relative_to(tmp_path)).encode())
        if path.suffix == ".parquet":
            assert not NEEDLE.search(repr(parquet.ParquetFile(path).read().to_pylist()).encode())
        elif path.is_file():
            assert not NEEDLE.search(path.read_bytes()), path


def test_the_tables_beside_verify_have_no_secret(logdir: Path, key: Path, tmp_path: Path) -> None:
    clean(run_kdump(["verify", str(logdir), "--redact-key", str(key), "--out", str(tmp_path / "out")], tmp_path))
    files = list((tmp_path / "out").rglob("*.parquet"))
    assert len(files) > 3
    for path in files:
        assert not NEEDLE.search(repr(parquet.ParquetFile(path).read().to_pylist()).encode())


def test_a_redacted_export_goes_on_with_the_same_key_only(logdir: Path, key: Path, tmp_path: Path) -> None:
    words = ["export", str(logdir), "--to", str(tmp_path / "to"), "--file-format", "json", "--redact-key", str(key)]
    first = clean(run_kdump(words, tmp_path))
    files = {path: path.read_bytes() for path in (tmp_path / "to").rglob("*.json")}
    gone = next(path for path in files if path.parent.name == "partition=0" and "topic=tok-" in str(path))
    gone.unlink()
    (tmp_path / "to/_kdump" / f"{gone.stem}.done").unlink()
    again = clean(run_kdump(words, tmp_path))
    assert (again.exit, again.stdout) == (first.exit, first.stdout)
    assert sorted(again.stderr.splitlines()) == sorted(first.stderr.splitlines())
    assert {path: path.read_bytes() for path in (tmp_path / "to").rglob("*.json")} == files
    for other in (["--redact"], []):
        refused = run_kdump([*words[:-2], *other], tmp_path)
        assert refused.exit == 2
        assert b"holds an export of something else" in refused.stderr


def test_records_keep_sizes_nulls_and_header_keys_and_equal_values_have_equal_tokens(logdir: Path, key: Path) -> None:
    words = ["dump", "--format", "json", "--print-data-log", str(logdir / f"{TOPIC}-0" / partitions.name(0))]
    plain, hidden = (
        [
            one
            for line in run_kdump([*words, *more], logdir).stdout.splitlines()
            if (one := json.loads(line))["type"] == "record"
        ]
        for more in ([], ["--redact-key", str(key)])
    )
    token = Redactor(KEY).token
    assert len(plain) == 6
    for one, other in zip(plain, hidden, strict=True):
        shown = {**one, "file": other["file"]}
        for name in ("key", "payload"):
            shown[name] = None if one[name] is None else token(one[name])
        shown["headers"] = [
            {"key": it["key"], "value": None if it["value"] is None else token(it["value"])} for it in one["headers"]
        ]
        assert other == shown


def test_decoded_records_keep_their_numbers_and_hide_their_text(logdir: Path, key: Path) -> None:
    words = [
        "dump",
        "--format",
        "json",
        "--print-data-log",
        str(logdir / "__consumer_offsets-0"),
        "--redact-key",
        str(key),
    ]
    lines = [json.loads(line) for line in run_kdump(words, logdir).stdout.splitlines()]
    first = next(one for one in lines if one["type"] == "record")
    token = Redactor(KEY).token
    assert first["decodedKey"] == {
        "type": "1",
        "data": {"group": token("ndl group x"), "topic": token(TOPIC), "partition": 0},
    }
    assert first["decodedPayload"]["version"] == "3"
    assert first["decodedPayload"]["data"]["offset"] == 4
    assert first["decodedPayload"]["data"]["metadata"] == token("m")


def test_metadata_records_keep_the_names_of_settings(logdir: Path, key: Path) -> None:
    words = ["dump", "--cluster-metadata-decoder", str(logdir / "__cluster_metadata-0"), "--redact-key", str(key)]
    shown = clean(run_kdump(words, logdir)).stdout.decode()
    token = Redactor(KEY).token
    assert f'"resourceName":"{token(TOPIC)}","name":"retention.ms","value":"{token("ndlSetting")}"' in shown
    assert f'"principal":"{token("User:ndlPrincipal")}","host":"{token("ndlHost")}"' in shown


@pytest.mark.parametrize("layout", ["text", "json"])
def test_a_record_too_large_to_hold_has_the_token_of_all_its_bytes(tmp_path: Path, key: Path, layout: str) -> None:
    value = b"ndl\xff" * (5 * 1024 * 1024)
    path = partitions.write(
        tmp_path / "t-0", {partitions.name(0): batch(0, [Record(value, b"ndlKey", [(b"h", value[: 2 << 20])])])}
    ) / partitions.name(0)
    words = ["dump", "--format", layout, "--print-data-log", "--redact-key", str(key), str(path)]
    shown = clean(run_kdump(words, tmp_path)).stdout
    redactor = Redactor(KEY)
    for one in (value, b"ndlKey", *([value[: 2 << 20]] if layout == "json" else [])):
        assert redactor.token(one).encode() in shown
    assert str(len(value)).encode() in shown


def test_each_run_has_a_key_of_its_own_without_a_file(logdir: Path) -> None:
    words = ["dump", "--redact", str(logdir / f"{TOPIC}-0")]
    one, other = (clean(run_kdump(words, logdir)).stdout for _ in range(2))
    assert one != other


def test_a_key_that_others_can_read_is_refused(logdir: Path, tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(KEY)
    for mode in (0o640, 0o604, 0o644):
        path.chmod(mode)
        run = run_kdump(["dump", "--redact-key", str(path), str(logdir)], tmp_path)
        assert (run.exit, run.stdout) == (12, b"")
        assert run.stderr.count(b"\n") == 1
        assert b"chmod 600" in run.stderr


@pytest.mark.parametrize("content", [None, b""])
def test_a_key_that_is_not_there_is_wrong_use(logdir: Path, tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
        path.chmod(0o600)
    run = run_kdump(["verify", "--redact-key", str(path), str(logdir)], tmp_path)
    assert (run.exit, run.stdout) == (2, b"")


@pytest.mark.parametrize("option", [["--compat", "4.3", "--files", "x"], ["--raw"], ["--decoder-command", "cat"]])
def test_what_shows_bytes_as_they_are_does_not_go_with_it(logdir: Path, option: list[str]) -> None:
    run = run_kdump(["dump", "--redact", *option, str(logdir)], logdir)
    assert (run.exit, run.stdout) == (2, b"")


@pytest.mark.parametrize(
    ("path", "hidden"),
    [
        ("/d/orders-3/00000000000000000000.log", "/d/{orders}-3/00000000000000000000.log"),
        ("orders-3", "{orders}-3"),
        ("orders-3/", "{orders}-3/"),
        ("/d/a.b_c-12." + "0f" * 16 + "-delete/x.log", "/d/{a.b_c}-12." + "0f" * 16 + "-delete/x.log"),
        ("/d/orders-3.bak/00000000000000000000.log", "/d/{orders}-3.bak/00000000000000000000.log"),
        ("/d/orders-3.log", "/d/{orders}-3.log"),
        ("/kafka-logs-1/__consumer_offsets-4/leader-epoch-checkpoint", None),
        ("/kafka-4.3.1/data/meta.properties", None),
        ("/data/disk-1/d/00000000000000000000-0000000001.checkpoint", None),
        ("/backup/known-2026/x/00000000000000000007.log", "/backup/{known}-2026/x/00000000000000000007.log"),
    ],
)
def test_a_path_has_tokens_for_the_topics_in_it(path: str, hidden: str | None) -> None:
    redactor = Redactor(KEY)
    redactor.topic("known")
    expected = path if hidden is None else re.sub(r"\{(.+?)\}", lambda one: redactor.token(one[1]), hidden)
    assert redactor.path(path) == expected
    assert redactor.text(f"see {path}: it is gone") == f"see {expected}: it is gone"
    assert redactor.path(expected) == expected  # what was hidden already stays


def test_prose_without_names_stays_as_it_is() -> None:
    redactor = Redactor(KEY)
    redactor.learn(["/d/log-0", "/d/offset-1"])  # words of messages
    for code in Code:
        assert redactor.text(f"{code.sentence}; {code.remedy}") == f"{code.sentence}; {code.remedy}"
    for said in ("CRC-32C at 2026-11-21, UTF-8, KIP-101", "now-2h", "offsets 0..-1 and -5", "--to-offset 5"):
        assert redactor.text(said) == said


@pytest.mark.parametrize("topic", [one for one in HOSTILE if not re.fullmatch(r"[\w.-]+", one, re.ASCII)])
def test_a_topic_that_is_no_word_is_hidden_in_commands_and_sentences(topic: str) -> None:
    redactor = Redactor(KEY)
    redactor.learn([f"/d/{topic}-3"])
    token = redactor.token(topic)
    command = command_line("reindex", f"/d/{topic}-3", "--snapshot").then(ShellCommand("cp", f"{topic}-3/x", "DIR"))
    hidden = f"kdump reindex /d/{token}-3 --snapshot && cp {token}-3/x DIR"
    assert redactor.text(command) == hidden
    assert redactor.text(f"restore {topic}-3 first") == f"restore {token}-3 first"
    said = redactor.text(f"nothing is lost: {command}")
    assert token in said
    assert str(ShellCommand(topic)).strip("$'") not in said


def test_a_command_keeps_its_own_words_whatever_topics_are_called() -> None:
    redactor = Redactor(KEY)
    redactor.learn(["/d/kdump-0", "/d/verify-0", "/d/orders-0", "/d/offset-0"])
    abort = ShellCommand("kafka-transactions.sh", "abort", "--topic", "a b", "--partition", "1", "--start-offset", "7")
    assert redactor.text(abort) == abort.replace("'a b'", redactor.token("a b"))
    assert redactor.text(command_line("verify", "--accept=/d/orders-0/x", "TOPIC-N", "-1")) == (
        f"kdump verify --accept=/d/{redactor.token('orders')}-0/x TOPIC-N -1"
    )


def test_a_finding_names_the_same_partition_in_all_its_fields() -> None:
    redactor = Redactor(KEY)
    values: dict[str, int | str | None] = {"partition": "orders-3", "end": 4}
    finding = Finding(Code.K01, "/d/orders-3/x", field="offset", found=9, values={**values, "missing": 5})
    shown = redactor.item(finding)
    assert shown.message.startswith(f"{redactor.token('orders')}-3: offset 9")
    assert shown.file == f"/d/{redactor.token('orders')}-3/x"


PROSE = {
    "TrailingBytes": "name",
    "SanityFailed": "message",
    "SnapshotError": "message",
    "Died": "exception",
    "Operation": "why detail",
    "Planned": "journal arguments partial_arguments",
    "Unchecked": "reason",
    "ChangeRow": "stands_out",
    "CommitRow": "place_why",
    "ClusterRow": "fields",
    "Remark": "sentence",
    "PartitionChecked": "remark",
    "Prediction": "orphans",
}
"""Texts of items that no user is shown in a column, and that are sentences: names are looked for in them."""
NOT_REDACTED = {  # rows of salvage, carve and cluster --emit, which have no --redact
    *(
        "CarvedRun",
        "Kept",
        "LeftOutBatches",
        "Diverged",
        "PatchedField",
        "Revived",
        "Salvaged",
        "SalvagedCopy",
        "SalvageDone",
    ),
    "SalvageRefused",
    "ClusterOrigin",
    "NodeDirectory",
}


def test_each_text_of_an_item_has_its_rule() -> None:
    classes = {
        name: one
        for module in (item, coordinators, files, lookup, plan, salvaged, carved, usage, verdict)
        for name, one in vars(module).items()
        if isinstance(one, type) and issubclass(one, Value) and one.__module__ == module.__name__
    }
    assert {name for name, _ in redact._ODD} | PROSE.keys() | NOT_REDACTED <= classes.keys()
    without: dict[str, set[str]] = {}
    for name, one in classes.items():
        shown = {made.attribute for made in one.columns} if issubclass(one, Row) else set()
        types = {
            field: of for base in reversed(one.__mro__) for field, of in vars(base).get("__annotations__", {}).items()
        }
        ruled = {*shown, *redact._UNSHOWN, *PROSE.get(name, "").split()}
        texts = {field for field in one.__match_args__ if "str" in types[field] or "bytes" in types[field]}
        if name not in NOT_REDACTED and texts - ruled:
            without[name] = texts - ruled
    assert without == {}, "say in redact.py what is seen of them"


def test_broken_values_ids_and_odd_directories_are_hidden_too(tmp_path: Path) -> None:
    """What is wrong is shown where nobody meant it to be: in settings, ids and names that are none."""
    root = tmp_path / "ld"
    for name in ("t-0", "SECRETdir", "SECRETtopic-x"):
        (root / name).mkdir(parents=True)
    (root / "t-0" / f"{0:020}.log").write_bytes(b"")
    (root / "t-0" / "partition.metadata").write_text("version: 0\ntopic_id: SECRETidSECRETid\n")
    (root / "meta.properties").write_text("version=1\nnode.id=SECRETnode\ncluster.id=SECRETcluster\n")
    (tmp_path / "settings").write_text("log.retention.hours=SECRETvalue\n")
    words = [
        ("verify", "ld"),
        ("verify", "ld", "--format", "json"),
        ("dump", "ld/t-0/partition.metadata"),
        ("dump", "ld/meta.properties", "--format", "json"),
        ("cluster", "ld"),
        ("groups", "ld"),
        ("du", "ld", "--config", "settings"),
        ("retention", "ld", "--config", "settings"),
    ]
    for one in words:
        shown, hidden = (run_kdump([*one, *more], tmp_path) for more in ([], ["--redact"]))
        assert b"SECRET" in shown.stdout + shown.stderr, one
        assert b"SECRET" not in hidden.stdout + hidden.stderr, one
        assert hidden.exit == shown.exit
