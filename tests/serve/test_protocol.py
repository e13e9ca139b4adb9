"""Bytes of Kafka's protocol to values and back; what is no request is none, and takes no memory."""

from __future__ import annotations

from typing import Any

import pytest
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from kdump.serve import protocol
from kdump.serve.options import Address
from kdump.serve.protocol import BadRequestError, Header, read_header, read_request
from kdump.serve.refusals import REFUSED, refusal
from tests.support.mutated_requests import answered, request

pytestmark = pytest.mark.quick


def parsed(data: bytes) -> tuple[Header, dict[str, Any]]:
    header = read_header(data)
    return header, read_request(header, data)


@pytest.mark.parametrize("name", sorted({one for one, _ in answered()}))
def test_every_version_of_a_request_is_read_to_its_end(name: str) -> None:
    for version in [version for one, version in answered() if one == name]:
        data = request(name, version)
        header, fields = parsed(data)
        again = request(name, version, **fields)
        assert (header.correlation_id, header.client_id, again) == (7, "test", data), version


def test_a_count_that_lies_is_told_before_memory_is_taken() -> None:
    data = request("metadata", 1, topics=[])
    lie = data[:-4] + b"\x7f\xff\xff\xff"
    with pytest.raises(BadRequestError, match="2147483647 elements"):
        parsed(lie)


def test_a_request_that_is_cut_off_anywhere_is_none() -> None:
    data = request("fetch", 12)
    for end in range(len(data)):
        with pytest.raises(BadRequestError):
            parsed(data[:end])


def test_api_versions_of_tomorrow_is_known_by_its_first_bytes() -> None:
    header = read_header(b"\x00\x12\x00\x63\x00\x00\x00\x09what nobody knows yet")
    assert (header.api_key, header.version, header.correlation_id) == (18, 99, 9)


@pytest.mark.parametrize("name", REFUSED)
def test_every_part_of_a_request_that_writes_is_refused(name: str) -> None:
    for version in [version for one, version in answered() if one == name]:
        header, fields = parsed(request(name, version))
        data = b"".join(protocol.response(header, refusal(fields)))
        of = load_response_schema(header.api_key, version)
        buffer, _ = entity_reader(of)(data, 5 if of.__flexible__ else 4)
        errors = list(_errors(buffer))
        assert errors, version
        assert set(errors) == {ErrorCode.cluster_authorization_failed}, version


def _errors(entity: Any) -> list[Any]:
    found = []
    for name in entity.__slots__:
        value = getattr(entity, name)
        if name in ("error_code", "partition_error_code"):
            found.append(value)
        for one in value if isinstance(value, tuple) else ():
            found += _errors(one) if hasattr(one, "__slots__") and hasattr(one, "__version__") else []
    return found


def test_an_address_of_ipv6_has_brackets() -> None:
    assert [str(Address("::1", 9092)), str(Address("localhost", 1))] == ["[::1]:9092", "localhost:1"]


def test_pieces_keep_ranges_of_files_between_bytes() -> None:
    class Range:
        def __len__(self) -> int:
            return 10

    pieces, one = protocol.ResponsePieces(), Range()
    for piece in (b"ab", b"c", one, b"d"):
        pieces.write(piece)
    assert (list(pieces), pieces.size) == ([b"abc", one, b"d"], 14)
