"""The classic group protocol in memory: who joins gets a share, and a group ends with its last member."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from kdump.serve.coordinator import Coordinator
from kdump.serve.protocol import Header

pytestmark = pytest.mark.quick
HEADER = Header(11, 3, 1, "test", 0)  # the last version in which a member needs no second round


def joining(member: str = "", *, protocol: str = "range", group: str = "g") -> dict[str, Any]:
    protocols = [{"name": protocol, "metadata": b"wants"}]
    times = {"session_timeout": 6000, "rebalance_timeout": 2000}
    return {"group_id": group, "member_id": member, "protocol_type": "consumer", "protocols": protocols, **times}


def syncing(joined: dict[str, Any], shares: dict[str, bytes]) -> dict[str, Any]:
    assignments = [{"member_id": one, "assignment": share} for one, share in shares.items()]
    return {**of(joined), "assignments": assignments}


def of(joined: dict[str, Any]) -> dict[str, Any]:
    return {"group_id": "g", "member_id": joined["member_id"], "generation_id": joined["generation_id"]}


def test_two_members_get_what_the_leader_shares_out() -> None:
    async def run() -> None:
        groups = Coordinator()
        first, second = await asyncio.gather(groups.join(joining(), HEADER), groups.join(joining(), HEADER))
        assert first["leader"] == second["leader"] == first["member_id"]
        assert [len(first["members"]), len(second["members"])] == [2, 0]
        shares = {first["member_id"]: b"one", second["member_id"]: b"two"}
        late = asyncio.ensure_future(groups.sync(syncing(second, {})))
        await asyncio.sleep(0)
        led = await groups.sync(syncing(first, shares))
        assert [led["assignment"], (await late)["assignment"]] == [b"one", b"two"]
        assert groups.heartbeat(of(second))["error_code"] is ErrorCode.none
        assert groups.describe("g")["group_state"] == "Stable"

    asyncio.run(run())


def test_a_member_that_leaves_makes_the_others_join_again() -> None:
    async def run() -> None:
        groups = Coordinator()
        first, second = await asyncio.gather(groups.join(joining(), HEADER), groups.join(joining(), HEADER))
        groups.leave({"group_id": "g", "member_id": second["member_id"]})
        assert groups.heartbeat(of(first))["error_code"] is ErrorCode.rebalance_in_progress
        again = await groups.join(joining(first["member_id"]), HEADER)
        assert (again["generation_id"], len(again["members"])) == (2, 1)
        groups.leave({"group_id": "g", "member_id": first["member_id"]})
        assert groups.groups == {}

    asyncio.run(run())


def test_what_does_not_fit_the_group_is_refused() -> None:
    async def run() -> None:
        groups = Coordinator()
        joined = await groups.join(joining(), HEADER)
        other = await groups.join(joining(protocol="sticky"), HEADER)
        assert other["error_code"] is ErrorCode.inconsistent_group_protocol
        stale = {**of(joined), "generation_id": 7}
        assert groups.heartbeat(stale)["error_code"] is ErrorCode.illegal_generation
        unknown = {**of(joined), "member_id": "nobody"}
        assert groups.heartbeat(unknown)["error_code"] is ErrorCode.unknown_member_id
        nameless = await groups.join(joining(group=""), HEADER)
        assert nameless["error_code"] is ErrorCode.invalid_group_id
        asked = await groups.join(joining(group="h"), HEADER.replace(version=4))
        assert asked["error_code"] is ErrorCode.member_id_required
        assert "h" not in groups.groups

    asyncio.run(run())


def test_who_is_in_no_group_may_commit_without_one() -> None:
    groups = Coordinator()
    alone = {"group_id": "g", "member_id": "", "generation_id": -1}
    assert groups.may_commit(alone) is ErrorCode.none
    assert groups.may_commit({**alone, "generation_id": 3}) is ErrorCode.illegal_generation
