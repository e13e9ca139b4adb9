"""Targets: what kdump reads back of its own or is handed, logs that are followed, and the state of internal topics."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kdump.rows.carved import CarvedRun
from kdump.rows.json_lines import row_json
from kdump.rows.salvaged import Diverged, Kept, Salvaged
from kdump.rows.verdict import Certainty, Loss
from tests.fuzz import limits, logs
from tests.fuzz.case import Case
from tests.fuzz.chance import with_true_crcs
from tests.support import partitions
from tests.support.segments import batch
from tests.support.state_files import tampered

if TYPE_CHECKING:
    from tests.fuzz.chance import Chance
    from tests.support.partitions import Files

P = "p-0"
LOG = partitions.name(0)
RUN = "run-1-00000000000000000000.log"
OFFSETS = "__consumer_offsets-0"


def rows_of(topic: str) -> bytes:
    """Rows as salvage and verify write them."""
    rows = [
        Kept(topic, 0, 0, records=1, source=topic, sources=1),
        Loss(topic, topic, LOG, 68, 0, 1, 1, None, Certainty.LOST, ("O04",), ()),
        Diverged(topic, 2, 3, source=topic, epoch=None, records=2),
        Salvaged(topic, (topic,), 1, 1, 68, 1, 0, 3, 1, 0, ()),
    ]
    return "".join(f"{row_json(row)}\n" for row in rows).encode()


def changed(chance: Chance, data: bytes) -> bytes:
    """The same file, or one that was tampered with."""
    return tampered(chance, data) if chance.lies else data


def two_batches() -> bytes:
    """A log with a hole."""
    return batch(0, [b"v"]) + batch(2, [b"v"])


def runs(chance: Chance) -> Case:
    """The list that carve writes beside its runs."""
    size = len(two_batches())
    row = CarvedRun(f"runs/{RUN}", "image", 2, 2, 0, 2, (0,), (-1,), 5, 5, ((0, size),), "log", ("like",), ("p", 0))
    more = CarvedRun("runs/gone.log", "image", 1, 1, 0, 0, (), (), None, None, ((0, 9), (99, 9)), "log", (), None)
    listed = f"{row_json(row)}\n{row_json(more)}\n".encode()
    files = {f"runs/{RUN}": two_batches(), "runs/carve.jsonl": changed(chance, listed)}
    commands = [
        ["kdump", "salvage", "runs", "--to", "../out/0"],
        ["kdump", "salvage", f"runs/{RUN}", "--to", "../out/1"],
    ]
    return Case(files, commands, usage=True)


def rows(chance: Chance) -> Case:
    """The rows that salvage writes beside a partition."""
    topic = chance.among([P, OFFSETS])
    files = {f"{topic}/{LOG}": two_batches(), f"{topic}.salvage.jsonl": changed(chance, rows_of(topic))}
    commands = [["kdump", "verify", "--format", "json", topic], ["kdump", "find-offset", topic, "1"]]
    commands += [["kdump", "groups", "--format", "json", topic], ["kdump", "salvage", topic, "--to", "../out/0"]]
    return Case(files, commands)


def handed(chance: Chance) -> Case:
    """What users hand over: known losses, manifests, settings, epochs, keys."""
    manifest = json.dumps([{"host": "h", "log.dir": "/d", "path": P}, {"path": "none"}]).encode()
    files = {
        f"{P}/{LOG}": two_batches(),
        "known": changed(chance, rows_of(P)),
        "m.json": changed(chance, manifest),
        "m.csv": changed(chance, b"host,log.dir,path\nh,/d,p-0\n"),
        "broker.properties": changed(chance, b"log.retention.hours=1\nlog.cleanup.policy=compact\n"),
        "epochs": changed(chance, partitions.checkpoint((0, 0), (1, 2))),
    }
    commands = [
        ["kdump", "verify", "--known", "known", P],
        ["kdump", "verify", "--format", "json", chance.among(["m.json", "m.csv"])],
        ["kdump", "retention", "--now", "1700000000000", "--config", "broker.properties", P],
        ["kdump", "salvage", P, "--epochs", "epochs", "--to", "../out/0"],
    ]
    return Case(files, commands, usage=True)


_OPTIONS = {
    "table": [
        "batches",
        "records",
        "findings",
        "segments",
        "losses",
        "commits",
        "usage",
        "unread",
        "replicaDiffs",
        "x",
    ],
    "path": [P, ".", "none", "m.json", "p-*", "s3://bucket/x", "\0", ""],
    "paths": [f'["{P}"]', "[]", "[1]", "{}", "[" * 50_000, '["a", "m.json"]', "null"],
    "columns": ["offset", "partition,offset", "x", ",", ""],
    "timestamps": ["true", "FALSE", "1", ""],
    "mode": ["failfast", "permissive", "other"],
    "topics": ["p", "p,q", "*", "[", "p*", ""],
    "partitions": ["p-0", "0", "p-", "p-99999999999999999999", "p-*"],
    "fromOffset": ["0", "-1", "9223372036854775807", "9223372036854775808", "1" * 5000, "\u0663", "1_0"],
    "toOffset": ["0", "5", "x", " 7 "],
    "fromTime": ["2026-01-01", "-1h", "latest", "1700000000000", "9" * 30, "2026-02-30T00:00Z", "1e9"],
    "toTime": ["2026-01-01T00:00:00Z", "now", "", "-99999999999d"],
    "key": ["k", "", "\udcff", "0x6b"],
    "keyRegex": ["k.*", "(", "(a+)+$", "[[:alpha:]]", "\\", "(?P<n>x)", "a" * 100_000, "(" * 2000 + ")" * 2000],
    "seek": ["true", "no"],
    "decoder": ["auto", "none", "java", "offsets"],
    "shallow": ["true", "x"],
    "contiguous": ["false"],
    "noResync": ["true"],
    "splitSize": ["1", "0", "16k", "1gb", "g", "99999999999g", "-1", "1.5m"],
    "minPartitions": ["1", "0", "999999999999", "-1"],
    "maxBatchBytes": ["1", "1m", "b"],
    "maxUncompressedBytes": ["0", "k"],
    "owner": ["me"],
    "spark.sql.x": ["y"],
    "__internal": ["z"],
    "unknown": ["1"],
}


def source_options(chance: Chance) -> Case:
    """Options of the data source: texts that are right, that nearly are, and any text under any name."""
    given = {"path": P}
    for name in chance.sample(sorted(_OPTIONS), chance.randrange(6)):
        texts = _OPTIONS[name] if not chance.lie() else chance.among([*_OPTIONS.values()])
        given[chance.among([name, name.lower(), name.upper()])] = chance.among(texts)
    manifest = json.dumps([{"host": "h", "log.dir": "/d", "path": P}]).encode()
    files = {f"{P}/{LOG}": two_batches(), "m.json": changed(chance, manifest), "options": json.dumps(given).encode()}
    return Case(files, [["@options", "options"]], usage=True)


def follow(chance: Chance) -> Case:
    """Logs that are followed, under any names."""
    files, _ = logs.partition(chance)
    names = [f"{10**20 - 1}.log", f"{2**63:020}.log", f"{2**63 - 1:020}.log", "1.log", f"{0:020}.log.swap"]
    for name in chance.sample(names, chance.randrange(3)):
        files[name] = chance.among([b"", two_batches(), chance.randbytes(100)])
    files = {name: chance.damage(data) if chance.lie() and data else data for name, data in sorted(files.items())}
    asked = chance.among([[], ["--tail", "2"], ["--from-offset", "0"], ["--key", "k1"], ["--limit", "3"]])
    layout = chance.among([[], ["--format", "json"]])
    return Case(partitions.below(P, files), [["kdump", "dump", "--follow", "--idle-timeout", "1s", *asked, *layout, P]])


def folded(chance: Chance) -> Case:
    """Internal topics whose records were changed, with CRCs made right: groups, transactions, cluster and du."""
    topic = chance.among(
        ["__consumer_offsets-0", "__transaction_state-0", "__cluster_metadata-0", "__share_group_state-0"]
    )
    made: Files = limits.partition(chance, topic)
    files = {}
    for name, data in made.items():
        new = chance.damage(data, 2) if chance.lies and data and chance.often(0.6) else data
        files[f"ld/{topic}/{name}"] = with_true_crcs(new) if name.endswith(".log") and chance.often(0.8) else new
    layout = chance.among([[], ["--format", "json"]])
    commands = [["kdump", verb, *layout, "ld"] for verb in ("groups", "transactions", "cluster")]
    commands += [["kdump", "du", *layout, "--by", chance.among(["topic", "partition", "segment"]), "ld"]]
    return Case(files, commands, usage=True)
