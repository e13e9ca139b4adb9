"""The targets: each makes a case, which is some files and commands that must hold with whatever is in them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tests.fuzz import limits, logs, state
from tests.fuzz.case import Case
from tests.fuzz.chance import LIMITS, with_true_crcs
from tests.fuzz.internal import INTERNAL, contents_of
from tests.support import partitions
from tests.support.segments import TIME

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fuzz.chance import Chance
    from tests.support.partitions import Files

LOG = "00000000000000000000.log"
P = "p-0"
LIES = [0.0, 0.02, 0.05, 0.15]  # how often a number is not the true one


def dump(options: list[str], path: str) -> list[str]:
    """Dump one file; with --compat files are named as Kafka's tool takes them."""
    return ["kdump", "dump", *options, f"--files={path}" if "--compat" in options else path]


def scan(chance: Chance) -> Case:
    """Headers of every magic, through the walk itself."""
    base = chance.among([0, 0, 1000, 2**40])
    data = logs.log(chance, base=base, magics=chance.among([(2,), (0, 1), (0, 1, 2)]), codec=0)
    name = partitions.name(base)
    return Case({name: data}, [["@walk", name, str(base), str(chance.randrange(len(data) + 1))]])


def records(chance: Chance) -> Case:
    """Records of magic 2, each field of them: through the reader itself, and as text and JSON."""
    data = logs.log(chance)
    commands = [["@records", LOG]]
    if chance.often(0.3):
        commands += [
            dump(["--print-data-log", *chance.among([[], ["--compat", "4.3"], ["--timestamps", "iso"]])], LOG),
            ["kdump", "dump", "--print-data-log", "--format", "json", LOG],
        ]
    if chance.often(0.2):
        commands.append(["kdump", "verify", "--format", "json", "."])
    return Case({LOG: data}, commands)


def legacy(chance: Chance) -> Case:
    """Messages and wrappers of magic 0 and 1."""
    data = logs.log(chance, magics=chance.among([(0,), (1,), (0, 1)]))
    commands = [["@records", LOG]]
    if chance.often(0.3):
        commands += [
            dump(
                [
                    "--print-data-log",
                    *chance.among([[], ["--compat", "4.4"], ["--compat", "4.3"], ["--compat", "3.9"]]),
                ],
                LOG,
            ),
            ["kdump", "verify", "--format", "json", "."],
            ["kdump", "dump", "--print-data-log", "--format", "json", LOG],
        ]
    return Case({LOG: data}, commands)


def frames(codec: int) -> Callable[[Chance], Case]:
    """The frames of one codec."""

    def made(chance: Chance) -> Case:
        data = logs.framed(chance, codec)
        commands = [["@records", LOG]]
        if chance.often(0.3):
            commands.append(["kdump", "verify", "--format", "json", LOG])
            commands.append(dump(["--print-data-log", "--compat", "4.3"], LOG))
        return Case({LOG: data}, commands)

    return made


def below(files: Files) -> Files:
    """The files of the partition in its directory."""
    return partitions.below(P, files)


def one_damaged(chance: Chance, files: Files, suffixes: tuple[str, ...]) -> Files:
    """The same files, some of those with these ends damaged."""
    if chance.lies:
        for name in [name for name in files if name.endswith(suffixes)]:
            if chance.often(0.5):
                files[name] = chance.damage(files[name]) if files[name] else chance.randbytes(20)
    return files


def indexes(chance: Chance) -> Case:
    """Offset, time and transaction indexes beside sound logs."""
    files, _ = logs.partition(chance)
    number = chance.number
    entries = [
        struct.pack(">hqqqq", number(0, 16), *(number(value, 64) for value in (i, 2 * i, 2 * i + 1, 2 * i)))
        for i in range(chance.randrange(4))
    ]
    files[partitions.name(0, "txnindex")] = b"".join(entries)
    files = one_damaged(chance, files, ("index",))
    name = chance.among([name for name in files if name.endswith("index")])
    commands = [["kdump", "verify", "--format", "json", P], ["kdump", "dump", f"{P}/{name}"]]
    commands.append(["kdump", "dump", "--format", "json", P])
    commands.append(
        ["kdump", "dump", *chance.among([["--verify-index-only"], ["--index-sanity-check"]]), f"{P}/{name}"]
    )
    commands.append(dump(["--compat", chance.among(["4.4", "4.3", "4.2", "3.9"])], f"{P}/{name}"))
    if chance.often(0.3):
        commands.append(["kdump", "reindex", *chance.among([[], ["--force"], ["--up-to-damage"]]), P])
    return Case(below(files), commands)


def snapshots(chance: Chance) -> Case:
    """Producer snapshots."""
    number = chance.number
    entries = [
        (
            number(i, 64),
            number(0, 16),
            number(5, 32),
            number(9, 64),
            number(2, 32),
            number(TIME, 64),
            number(-1, 32),
            number(-1, 64),
        )
        for i in range(chance.randrange(4))
    ]
    data = partitions.snapshot(*entries, version=number(1, 16))
    if chance.lie() or chance.often(0.2):
        data = chance.damage(data)
    files, end = logs.partition(chance)
    files[partitions.name(end, "snapshot")] = data
    path = f"{P}/{partitions.name(end, 'snapshot')}"
    commands = [["kdump", "dump", path], ["kdump", "dump", "--format", "json", path]]
    commands += [dump(["--compat", "4.3"], path), ["kdump", "verify", "--start", "all", P]]
    return Case(below(files), commands)


LINES = [
    "0",
    "1",
    "2",
    "-1",
    "p 0 5",
    "p-0 0 5",
    "0 0",
    "1 12",
    "99999999999999999999",
    "",
    " ",
    "a=b",
    "\t",
    "version: 0",
]
LINES += ["topic_id: AAAAAAAAAAAAAAAAAAAAAQ", "node.id=1", "\\u00", "\x1b[2J", "é", "version=1", "cluster.id=x", "0 -1"]
SMALL = ["leader-epoch-checkpoint", "partition.metadata"]
OF_LOG_DIR = [
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "meta.properties",
    "bootstrap.checkpoint",
    ".kafka_cleanshutdown",
]
JSONS = ['{"version":0,"brokerEpoch":1}', '{"clusterId":"x","leaderId":1}', "[[[[[", '{"leaderId":1e400}', "{", "NaN"]


def text(chance: Chance) -> bytes:
    """A small text file, right or not."""
    kind = chance.randrange(4)
    if kind == 0:
        data = partitions.checkpoint(("p", 0, chance.among(LIMITS)), ("q", chance.among(LIMITS), 3))
    elif kind == 1:
        data = "\n".join(chance.choices(LINES, k=chance.randrange(6))).encode()
    elif kind == 2:
        data = chance.among(JSONS).encode()
    else:
        data = partitions.checkpoint(
            *((i, chance.among(LIMITS)) for i in range(3)), count=chance.among([3, 2, -1, 10**9])
        )
    return chance.damage(data, 2) if chance.often(0.4) else data


def texts(chance: Chance) -> Case:
    """Checkpoints, properties, JSON files and configurations."""
    files, _ = logs.partition(chance)
    files[chance.among(SMALL)] = text(chance)
    files = below(files)
    name = chance.among(OF_LOG_DIR)
    files[name] = text(chance)
    files["quorum/__cluster_metadata-0/quorum-state"] = text(chance)
    files["broker.properties"] = text(chance)
    commands = [["kdump", "dump", name], ["kdump", "dump", "--format", "json", f"{P}/{SMALL[0]}", f"{P}/{SMALL[1]}"]]
    commands.append(["kdump", "dump", "--format", "json", "quorum/__cluster_metadata-0/quorum-state"])
    commands.append(["kdump", "verify", "--start", "all", "--format", "json", "."])
    commands.append(["kdump", "retention", "--config", "broker.properties", "--now", "1700000000000", "."])
    return Case(files, commands, usage=True)


NAMES = ["x.snapshot", ".log", "1.log", "99999999999999999999.log", "-1.log", "0.index", "00000000000000000000.LOG"]
NAMES += ["00000000000000000000.log.deleted", "00000000000000000000.log.swap", "00000000000000000000.log.cleaned"]
NAMES += [
    "00000000000000000009.snapshot",
    "9223372036854775807.log",
    "00000000000000000000.timeindex.swap",
    "\u202eabc.log",
]
NAMES += [
    "00000000000000000000-0000000001.checkpoint",
    "a\nb.log",
    "\x1b[31m.log",
    "e\u0301.txnindex",
    "x" * 200 + ".log",
]
DIRECTORIES = [
    "p-0",
    "p--1",
    "p-99999999999",
    "-0",
    "p",
    "p-0.abc-delete",
    "p-0.0123456789abcdef0123456789abcdef-delete",
]
DIRECTORIES += ["p-0.0123456789abcdef0123456789abcdef-future", "p-0.x-stray", "__cluster_metadata-0", "p\n-0", "\x1b-0"]


def names(chance: Chance) -> Case:
    """Odd names of files and directories."""
    files, end = logs.partition(chance)
    for _ in range(chance.randrange(1, 4)):
        name = chance.among(NAMES)
        files[name] = chance.among([b"", chance.text(), *files.values()])
        if chance.often(0.3) and len(files) > 3:
            files[chance.among(NAMES)] = files.pop(chance.among(list(files)))
    folder = chance.among(DIRECTORIES)
    files = partitions.below(folder, files)
    path = f"./{folder}"
    commands = [["kdump", "verify", "--format", "json", "."], ["kdump", "dump", path]]
    commands.append(["kdump", "truncate", "--to-offset", str(chance.randrange(end + 2)), "--with-later-segments", path])
    commands.append(["kdump", "reindex", path])
    commands.append(["kdump", "find-offset", path, str(chance.randrange(end + 2))])
    commands.append(["kdump", "retention", "--now", "1700000000000", "."])
    commands.append(["kdump", "verify", "--start", "all", "."])
    return Case(files, commands)


def decoders(chance: Chance) -> Case:
    """Records of the internal topics, their keys and values damaged."""
    topic = chance.among(INTERNAL)
    contents = [chance.among(contents_of(topic)) for _ in range(chance.randrange(1, 5))]
    if chance.lies:
        contents = [
            (key if key is None or chance.often(0.7) else chance.damage(key, 2), value and chance.damage(value, 3))
            for key, value in contents
        ]
    lies, chance.lies = chance.lies, 0.0
    data, _ = logs.batch(chance, 0, codec=0, contents=contents)
    chance.lies = lies
    path = f"{topic}-0/{LOG}"
    commands = [
        ["kdump", "dump", "--format", "json", "--print-data-log", path],
        ["kdump", "dump", "--print-data-log", path],
    ]
    options = ["--offsets-decoder", "--transaction-log-decoder", "--cluster-metadata-decoder"]
    options += ["--remote-log-metadata-decoder", "--share-group-state-decoder"]
    commands.append(dump(["--compat", chance.among(["4.4", "4.3", "3.9"]), chance.among(options[:3])], path))
    return Case({path: data}, commands)


def columns(chance: Chance) -> Case:
    """Export of whatever a log holds."""
    data = logs.log(chance, magics=chance.among([(2,), (2,), (0, 1, 2)]))
    table = chance.among(["records", "records", "records", "batches", "findings", "segments"])
    kind = chance.among(["json", "json", "csv", "parquet"])
    return Case(
        {f"{P}/{LOG}": data}, [["kdump", "export", "--table", table, "--file-format", kind, "--to", "../out", P]]
    )


def cleaning(chance: Chance) -> Case:
    """A pass of the cleaner."""
    files: Files = {}
    base = 0
    for _ in range(chance.randrange(1, 4)):
        magics = chance.among([(2,), (2,), (0, 1), (1, 2)])
        files[partitions.name(base)] = logs.log(chance, base=base, magics=magics)
        base += 100
    files = below(files)
    if chance.often(0.3):
        files["cleaner-offset-checkpoint"] = partitions.checkpoint(("p", 0, chance.among([0, 1, 5, 100])))
    settings = ["cleanup.policy=compact", f"max.message.bytes={chance.among([1, 1000, 1048588])}"]
    settings += [f"delete.retention.ms={chance.among([0, 1, 86400000])}", "min.cleanable.dirty.ratio=0.0"]
    given = [word for one in settings for word in ("--set", one)]
    command = ["kdump", "retention", "--pass", "--compaction", "--now", str(TIME + 10**9), *given]
    return Case(files, [[*command, "--format", chance.among(["text", "json"]), "."]])


def select(chance: Chance) -> Case:
    """The options of dump that choose."""
    files = below({LOG: logs.log(chance, magics=chance.among([(2,), (2,), (0, 1, 2)]))})
    n = str(chance.randrange(20))
    some = [
        ["--from-offset", n],
        ["--to-offset", n],
        ["--from-time", str(TIME + int(n))],
        ["--to-time", str(TIME + int(n))],
        ["--from-position", str(chance.randrange(300))],
        ["--limit", "2"],
        ["--tail", "2"],
        ["--key", "k1"],
        ["--key-regex", chance.among(["k[12]", "^$", ".", "\\x00"])],
        ["--header", chance.among(["a", "a=b", "="])],
        ["--producer-id", "1"],
        ["--leader-epoch", "0"],
        ["--control"],
        ["--transactional"],
        ["--tombstones"],
        ["--committed"],
        ["--aborted"],
        ["--stats"],
        ["--key-format", chance.among(["hex", "base64", "int", "long", "json"])],
        ["--value-format", chance.among(["hex", "base64", "int", "long", "json"])],
    ]
    options = [word for one in chance.sample(some, chance.randrange(1, 4)) for word in one]
    depth = chance.among([[], ["--deep-iteration"], ["--print-data-log"]])
    layout = chance.among([[], ["--format", "json"]])
    return Case(files, [["kdump", "dump", *options, *depth, *layout, P]], usage=True)


def find(chance: Chance) -> Case:
    """Lookups in damaged logs and indexes."""
    files, end = logs.partition(chance)
    if chance.lies:
        name = chance.among([name for name in files if name.endswith((".log", "index"))])
        files[name] = chance.damage(files[name]) if files[name] else b""
        if name.endswith(".log") and chance.often(0.5):
            files[name] = with_true_crcs(files[name])
    options = [word for word in ("--scan", "--print", "--context=2") if chance.often(0.4)]
    layout = chance.among([[], ["--format", "json"]])
    offset = chance.among([str(chance.randrange(end + 2)), "earliest", "latest"])
    when = chance.among([str(TIME + chance.randrange(end + 2)), "max", "0", str(2**62)])
    commands = [
        ["kdump", "find-offset", *options, *layout, P, offset],
        ["kdump", "find-time", *options, *layout, P, when],
    ]
    return Case(below(files), commands)


def repair(chance: Chance) -> Case:
    """Plans, and what they do when they are carried out and undone."""
    files, end = logs.partition(chance)
    if chance.lies:
        for name in chance.sample(sorted(files), chance.randrange(1, 3)):
            files[name] = chance.damage(files[name]) if files[name] else b"\0"
            if name.endswith(".log") and chance.often(0.5):
                files[name] = with_true_crcs(files[name])
    verbs = [
        ["truncate", "--at-damage", "--with-later-segments"],
        ["truncate", "--to-offset", str(chance.randrange(end + 2)), "--with-later-segments"],
        ["reindex", *chance.among([[], ["--force"], ["--up-to-damage"], ["--snapshot"]])],
        ["patch-header"],
    ]
    verb = chance.among(verbs)
    commands = [["kdump", *verb, P], ["kdump", *verb, "--format", "json", P]]
    commands.append(["kdump", *verb, "--apply", "--quarantine", "../quarantine", P])
    commands.append(["@undo", "../quarantine"])
    return Case(below(files), commands, writes=True, restores=True)


def journal(chance: Chance) -> Case:
    """A journal that somebody has changed."""
    files, end = logs.partition(chance)
    verb = chance.among(
        [["truncate", "--to-offset", str(chance.randrange(end + 1)), "--with-later-segments"], ["reindex", "--force"]]
    )
    commands = [["kdump", *verb, "--apply", "--quarantine", "../quarantine", P]]
    commands.append(["@tamper", "../quarantine", str(chance.randrange(2**32))])
    commands.append([chance.among(["@undo", "@resume"]), "../quarantine"])
    return Case(below(files), commands, writes=True)


def start(chance: Chance) -> Case:
    """What a broker is predicted to do."""
    files, _ = logs.partition(chance)
    if chance.lies:
        for name in chance.sample(sorted(files), chance.randrange(1, 4)):
            files[name] = chance.damage(files[name]) if files[name] else b"\0"
    files = below(files)
    if chance.often(0.5):
        files["recovery-point-offset-checkpoint"] = partitions.checkpoint(("p", 0, chance.randrange(30)))
    return Case(files, [["kdump", "verify", "--start", "all", "--format", "json", "."]])


def at_limits(chance: Chance) -> Case:
    """Offsets, deltas, times and ids at the limits of their fields, through every verb."""
    files = limits.log_dirs(chance)
    if chance.often(0.7):
        return Case(files, limits.readers(chance, files))
    return Case(files, limits.writer(chance, files), writes=True, restores=True)


TARGETS: dict[str, Callable[[Chance], Case]] = {
    "scan": scan,
    "records": records,
    "legacy": legacy,
    **{codec: frames(number) for codec, number in logs.FRAMES.items()},
    "indexes": indexes,
    "snapshots": snapshots,
    "texts": texts,
    "names": names,
    "decoders": decoders,
    "columns": columns,
    "cleaning": cleaning,
    "select": select,
    "find": find,
    "repair": repair,
    "journal": journal,
    "start": start,
    "limits": at_limits,
    "runs": state.runs,
    "rows": state.rows,
    "handed": state.handed,
    "options": state.source_options,
    "follow": state.follow,
    "folded": state.folded,
}


def make(target: str, chance: Chance) -> Case:
    """One case of a target."""
    chance.lies = chance.among(LIES)
    return TARGETS[target](chance)
