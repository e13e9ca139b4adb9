"""kdump: shows, checks and repairs the files that Apache Kafka brokers write.

What `__all__` names is the library, see man kdump-python; it is loaded when it is used.
"""

TYPE_CHECKING = False  # `typing` would cost more than all else here
if TYPE_CHECKING:
    from kdump.api._rows import Record
    from kdump.api.answers import Location, find_offset, find_time
    from kdump.api.columns import BatchColumns, RecordColumns
    from kdump.api.decoded import DecodedRecord
    from kdump.api.errors import Error
    from kdump.api.log import Batch, Log, records
    from kdump.api.verdict import Verdict, verify
    from kdump.finding import Code, Finding, Severity
    from kdump.rows.steps import Amount, Rank, Step
    from kdump.rows.verdict import Certainty, Loss, Prediction

__version__ = "0.1.0"
__all__ = [
    "Amount", "Batch", "BatchColumns", "Certainty", "Code", "DecodedRecord", "Error", "Finding", "Location", "Log",
    "Loss", "Prediction", "Rank", "Record", "RecordColumns", "Severity", "Step", "Verdict", "__version__",
    "find_offset", "find_time", "records", "verify",
]  # fmt: skip

_HOMES = {
    "Amount": "kdump.rows.steps",
    "Batch": "kdump.api.log",
    "BatchColumns": "kdump.api.columns",
    "Certainty": "kdump.rows.verdict",
    "Code": "kdump.finding",
    "DecodedRecord": "kdump.api.decoded",
    "Error": "kdump.api.errors",
    "Finding": "kdump.finding",
    "Location": "kdump.api.answers",
    "Log": "kdump.api.log",
    "Loss": "kdump.rows.verdict",
    "Prediction": "kdump.rows.verdict",
    "Rank": "kdump.rows.steps",
    "Record": "kdump.api._rows",
    "RecordColumns": "kdump.api.columns",
    "Severity": "kdump.finding",
    "Step": "kdump.rows.steps",
    "Verdict": "kdump.api.verdict",
    "find_offset": "kdump.api.answers",
    "find_time": "kdump.api.answers",
    "records": "kdump.api.log",
    "verify": "kdump.api.verdict",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
