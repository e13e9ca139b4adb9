"""The house: imports without circles, one class of a name, and for each module the tests that hold it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import kdump
from kdump.finding import Code, Trait

HOME = Path(kdump.__file__).resolve().parent.parent  # of the package that is tested: installed, or in the source tree
TESTS = Path(__file__).resolve().parent
ELSEWHERE = {"bench", "fuzz", "support"}  # folders of tests that no package of kdump has

# Modules that no test imports: the tests that run them, by commands or by what is above them.
HELD = {
    "tests/checks/test_field.py": (
        "checks.duplicates checks.owners checks.together format.batch.base_offset.far storage.other_formats"
        " storage.same_partition"
    ),
    "tests/checks/test_field_cases.py": "checks.run_steps checks.topic_id",
    "tests/rescue/test_destination.py": "cli.options.destination rescue.destination",
    "tests/rescue/test_rescue_kinds.py": "format.batch.base_offset.either rescue.base_offset.behind_holes",
    "tests/repair/test_mending.py": "repair.small_files",
    "tests/rescue/test_lost_ends.py": "broker.producer.lost_ends broker.producer.proven_ends",
    "tests/cli/test_contract.py": "checks.known cli.options.partitions",
    "tests/cli/test_inputs.py": "cli.options.inputs",
    "tests/decode/test_layouts.py": "dump.longer_keys",
    "tests/checks/test_whole_node.py": "checks.placement",
    "tests/broker/test_node_starts.py": "broker.load.properties_ensemble broker.load.raft_records",
    "tests/api/test_library.py": "api.answers api.columns api.errors api.select api.verdict",
    "tests/broker/test_cluster_history.py": "broker.cluster_history broker.log_end",
    "tests/broker/test_compaction.py": "broker.cleaner.cleaner_manager broker.cleaner.filter_to",
    "tests/checks/test_holes.py": "broker.missing.findings checks.hole_findings",
    "tests/rescue/test_partings.py": "rescue.branch_batches rescue.unplaced",
    "tests/broker/test_load.py": "broker.load.segments broker.load.split broker.load.swap_recovery broker.failure",
    "tests/broker/test_producers.py": "broker.producer.end_markers broker.producer.producer_append",
    "tests/broker/test_recover.py": "broker.load.index_builder",
    "tests/checks/test_causes.py": "broker.foreign checks.causes checks.log_start_reason format.batch.text_mode",
    "tests/checks/test_losses.py": "format.record.wrapper render.text.losses",
    "tests/storage/test_evidence.py": "storage.evidence",
    "tests/cli/test_metrics.py": "cli.options.metrics metrics",
    "tests/nights/test_nights.py": (
        "checks.kept_nothing checks.kept_segments cli.options.nights export.nights nights.present rows.nights"
    ),
    "tests/cli/test_own_state.py": "export.state storage.json_rules storage.own_files storage.refusal",
    "tests/cli/test_nothing_into_sources.py": "storage.outputs",
    "tests/checks/test_predict.py": "checks.predict",
    "tests/checks/test_step_table.py": "checks.intact_records checks.start_effects",
    "tests/checks/test_awaiting_deletion.py": (
        "broker.awaiting_deletion broker.lacking broker.load.swapped_dir checks.removed_records"
    ),
    "tests/checks/test_odd_directory.py": "checks.odd_directory",
    "tests/cli/test_broker_at_work.py": "storage.held",
    "tests/checks/test_metadata_log.py": "broker.load.raft_log checks.raft_log storage.raft_snapshots",
    "tests/checks/test_verify.py": (
        "checks.directories checks.loose checks.names checks.observers checks.partition_check checks.read_errors"
        " checks.replay checks.state_files storage.segment storage.state_file"
    ),
    "tests/checks/test_verify_output.py": (
        "verdict cli.verify render.commentary render.fold render.sink render.report.page"
    ),
    "tests/checks/test_next_steps.py": "broker.load.log_state checks.next_steps",
    "tests/checks/test_swaps.py": "checks.swaps",
    "tests/checks/test_verify_replicas.py": "checks.had_elsewhere",
    "tests/find/test_remedies.py": "find.remedies",
    "tests/cli/test_cli.py": (
        "cli.dump cli.options.common cli.options.formats cli.options.kafka render.text.buffer render.text.dump"
        " render.text.state render.text.writer dump.other_files"
    ),
    "tests/cli/test_completion.py": "cli.options.complete",
    "tests/cli/test_terminal.py": "cli.options.terminal",
    "tests/cli/test_licenses.py": "cli.licenses",
    "tests/cli/test_explain.py": "cli.explain",
    "tests/cli/test_manual.py": "cli.partition_for",
    "tests/compat/test_golden.py": "compat.kafka_legacy compat.kafka_record decode.broken_message",
    "tests/decode/test_decode_open.py": "decode.file_decoder",
    "tests/dump/test_not_searched.py": "dump.holes",
    "tests/dump/test_ranges.py": "dump.ranges dump.selected_ranges render.turns",
    "tests/dump/test_select_cli.py": "cli.options.selection cli.options.times",
    "tests/dump/test_fate.py": "broker.producer.transaction_fates dump.transaction_indexes dump.transaction_outcomes",
    "tests/dump/test_select_indexes.py": "storage.index_seek",
    "tests/dump/test_stats.py": "render.dump_sink render.figures render.text.stats",
    "tests/export/test_export.py": (
        "cli.export cli.options.engine export.partition_sums export.verdict_files export.write rows.log rows.stats"
    ),
    "tests/export/test_pruned.py": "export.pruned",
    "tests/find/test_find.py": (
        "broker.segment_reading cli.find find.answers find.log_scan find.lookup_audit render.find_rows render.text.find"
    ),
    "tests/format/test_checkpoint.py": (
        "format.checkpoint.json_files format.checkpoint.properties format.checkpoint.text_lines format.java_values"
    ),
    "tests/format/test_compression.py": (
        "format.codec.block_prefix format.codec.gzip_stream format.codec.lz4_frame format.codec.xerial"
        " format.codec.zstd_frame"
    ),
    "tests/format/test_kernels.py": "format.kernels._cython format.record.legacy",
    "tests/format/test_second_reading.py": "format.record.cut_record",
    "tests/format/test_walk.py": (
        "format.batch.framing format.batch.gap format.batch.header_checks format.batch.base_offset.fold"
        " format.batch.base_offset.chain format.batch.base_offset.findings format.batch.base_offset.places"
        " format.batch.base_offset.right format.batch.resync"
    ),
    "tests/render/test_html.py": "render.html.segment_map",
    "tests/render/test_json.py": "rows.summary render.json.state",
    "tests/test_redact.py": "cli.options.redact",
    "tests/repair/test_repair.py": (
        "cli.options.repair cli.patch_header cli.resume_undo cli.truncate render.text.plan repair.file_state"
        " repair.files repair.quarantine format.batch.header_fields format.batch.header_patches"
    ),
    "tests/repair/test_lost_aborts.py": "broker.producer.lost_aborts",
    "tests/rescue/test_carve.py": (
        "cli.carve render.text.carve rescue.carve rescue.carve_output rescue.rows rescue.run_owners"
    ),
    "tests/rescue/test_carved_copies.py": "rescue.run_copies rescue.run_edges",
    "tests/rescue/test_salvage.py": (
        "cli.salvage render.salvage_rows render.salvaged render.text.salvage rescue.compacted rescue.epochs rescue.line"
        " rescue.doubtful rescue.fate_rows rescue.holes rescue.line_writer rescue.scanned_log rescue.losses"
        " rescue.next_steps rescue.partition_salvage rescue.raft_files rescue.salvage rescue.segments"
        " rescue.sources rescue.standing rescue.step_sentences rescue.target rescue.base_offset.duplicate_batches"
        " rescue.end_evidence rows.salvaged"
    ),
    "tests/retention/test_retention.py": (
        "cli.options.broker cli.retention render.retention_rows render.report.retention render.report.sink"
        " render.text.retention"
    ),
    "tests/decode/payload/test_reference_payloads.py": (
        "api.decoded cli.options.schemas cli.schemas decode.payload.registry decode.payload.schema_files"
        " decode.payload.avro decode.payload.unfit render.report.schemas render.schema_rows state.schema_fold"
    ),
    "tests/spark/test_jobs.py": "spark.daemon spark.sessions spark.state spark.units",
    "tests/state/test_groups.py": (
        "cli.groups cli.state render.coordinator_rows render.coordinators render.report.coordinators"
        " render.text.coordinators"
        " render.text.lines state.copies state.group_coordinator state.messages state.share_coordinator"
    ),
    "tests/state/test_cluster.py": "cli.cluster render.text.cluster state.metadata_image state.metadata_log",
    "tests/state/test_cluster_check.py": "state.cluster_check",
    "tests/render/emit/test_commands.py": "render.emit.commands",
    "tests/render/emit/test_strimzi.py": "render.emit.strimzi",
    "tests/state/test_spill.py": "storage.nameless_file",
    "tests/state/test_transactions.py": (
        "cli.transactions state.doubt state.open_transactions state.transaction_coordinator"
    ),
    "tests/serve/test_clients.py": "serve.catalogue serve.commits serve.fetching serve.readable",
    "tests/serve/test_server.py": "cli.serve serve.server",
    "tests/storage/test_guest.py": "cli.options.guest",
    "tests/storage/test_names.py": "storage.paths",
    "tests/usage/test_du.py": (
        "cli.du cli.show render.report.usage usage.files usage.freeable usage.names usage.superseded"
    ),
}


@cache
def modules() -> dict[str, Path]:
    """The modules of kdump by name, packages as their `__init__`."""
    found = {}
    for path in sorted((HOME / "kdump").rglob("*.py")):
        name = ".".join(path.relative_to(HOME).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


@cache
def tree_of(path: Path) -> ast.Module:
    """What a file says."""
    return ast.parse(path.read_text("utf-8"))


def imported(path: Path) -> set[str]:
    """All that a file imports from kdump, in functions and for types too: modules, and names of modules."""
    names = set[str]()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: imports are absolute"
            names |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
    return names & modules().keys()


def test_no_imports_go_in_a_circle() -> None:
    graph = {name: imported(path) for name, path in modules().items() if name != "kdump"}
    for name, found in graph.items():  # a package is not what its modules import, only the way to them
        found.difference_update({one for one in found if any(two.startswith(f"{one}.") for two in found)}, {"kdump"})
        assert name not in found
    try:
        assert len(list(TopologicalSorter(graph).static_order())) > 200
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_no_public_class_has_the_name_of_another() -> None:
    names = Counter(
        node.name
        for path in modules().values()
        for node in tree_of(path).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert len(names) > 200
    assert [name for name, count in names.items() if count > 1] == []


def test_the_tests_are_in_the_packages_that_they_test() -> None:
    packages = {path.parent.name for path in (HOME / "kdump").glob("*/__init__.py")}
    folders = {path.parent.name for path in TESTS.glob("*/*.py")} - ELSEWHERE
    assert folders == packages


def test_every_module_is_held_by_a_test() -> None:
    tests = sorted(TESTS.rglob("*.py"))
    seen = {name for path in tests for name in imported(path)} | {
        name
        for path in tests
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for name in node.value.split()
        if name in modules()
    }
    named = [f"kdump.{name}" for names in HELD.values() for name in names.split()]
    assert [test for test in HELD if not (TESTS.parent / test).is_file()] == []
    assert [name for name in named if name not in modules()] == [], "they are gone"
    assert len(named) == len(set(named))
    files = {name for name, path in modules().items() if path.name != "__init__.py"}
    assert sorted(files - seen - set(named)) == [], "import it in a test, or say in HELD which test runs it"


# --- codes of findings: what is so of several is a trait in their rows ----------------------------------------
TABLE = "kdump.finding"
LIST = re.compile(r"[A-Z]\d\d(\W+[A-Z]\d\d)+")  # as in "O04 O07".split()


def code_of(node: ast.expr | None) -> str | None:
    """The code that an expression is: `Code.O04`, its name, or that name as a text."""
    while isinstance(node, ast.Attribute) and node.attr in ("name", "slug"):
        node = node.value
    name = node.attr if isinstance(node, ast.Attribute) else node.value if isinstance(node, ast.Constant) else None
    return name if isinstance(name, str) and name in Code.__members__ else None


def asked_in(node: ast.BoolOp) -> dict[str, set[str | None]]:
    """The codes with which each thing is compared in a condition: `code is Code.O04 or code is Code.O07`."""
    asked: dict[str, set[str | None]] = {}
    for one in node.values:
        if isinstance(one, ast.Compare) and (code := code_of(one.comparators[0])) is not None:
            asked.setdefault(ast.dump(one.left), set()).add(code)
    return asked


def codes_together(tree: ast.Module) -> list[int]:
    """The lines of a source in which several codes stand for what is so of all of them.

    A mapping from something else to codes is no such set: it says which code is reported.
    """
    found = []
    for node in ast.walk(tree):
        groups: list[set[str | None]] = []
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            groups.append({code_of(one) for one in node.elts})
        elif isinstance(node, ast.Dict):
            groups.append({code_of(one) for one in node.keys})
        elif isinstance(node, ast.BoolOp):
            groups += asked_in(node).values()
        elif isinstance(node, ast.MatchOr):
            groups.append({code_of(one.value) for one in node.patterns if isinstance(one, ast.MatchValue)})
        is_list = isinstance(node, ast.Constant) and isinstance(node.value, str) and LIST.fullmatch(node.value)
        is_family = isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("code.name")
        if is_list or is_family or any(len(group - {None}) > 1 for group in groups):
            found.append(node.lineno)  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize(
    "text",
    [
        "(Code.O04, Code.O07)",
        "finding.code in {Code.O04, other, Code.O07}",
        "(*(Code.O04, Code.O07), *MORE)",
        "frozenset((Code.O04.name, Code.O07.name))",
        "codes = ['O04', 'O07']",
        "'O04 O07'.split()",
        "{Code.O04: 'before', Code.O07: 'behind'}",
        "finding.code is Code.O04 or finding.code is Code.O07",
        "is_early or (code is not Code.O04 and code is not Code.O07)",
        "finding.code.name[0] == 'O'",
        "match code:\n case Code.O04 | Code.O07: pass",
    ],
)
def test_a_set_of_codes_is_seen_however_it_is_written(text: str) -> None:
    assert codes_together(ast.parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "Code.O04 if is_before else Code.O07",
        "{PAST_END: Code.L08, TOO_SMALL: Code.L05}",
        "cause.code is Code.X09 and finding.code is Code.X04",
        "Trait.HOLE in finding.code.traits",
        "'see O04 and O07 in the manual'",
    ],
)
def test_codes_that_are_reported_or_asked_for_alone_are_no_set(text: str) -> None:
    assert not codes_together(ast.parse(text))


def test_what_is_so_of_several_codes_stands_in_the_table_of_findings_only() -> None:
    messages = "kdump.broker.messages"  # a mapping from what brokers say to codes: where a reader is led
    found = {name: codes_together(tree_of(path)) for name, path in modules().items() if name not in (TABLE, messages)}
    assert {name: lines for name, lines in found.items() if lines} == {}, "make it a trait in kdump/finding.py"


@cache
def asked_traits() -> set[str]:
    """The names of the traits that anything but a row of the table names."""
    parts = [part for path in modules().values() for part in tree_of(path).body]
    return {
        node.attr
        for part in parts
        if not (isinstance(part, ast.ClassDef) and part.name == Code.__name__)
        for node in ast.walk(part)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == Trait.__name__
    }


@pytest.mark.parametrize("trait", Trait)
def test_a_trait_is_of_several_codes_and_somebody_asks_for_it(trait: Trait) -> None:
    assert sum(trait in code.traits for code in Code) > 1, "ask for the one code"
    assert trait.name in asked_traits()
