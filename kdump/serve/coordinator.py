"""The classic group protocol, in memory: members join, share out partitions, and commit, as long as the process lives.

Source: GroupCoordinator, ClassicGroup and GroupMetadataManager.classicGroupJoin of Kafka 4.3. What differs: nothing is
written, and a group is gone when its last member has left.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from kio.schema.errors import ErrorCode

if TYPE_CHECKING:
    from kdump.serve.protocol import Fields, Header

_MOST_GROUPS = 1000
_MOST_MEMBERS = 1000  # of all groups
_MOST_METADATA = 1024 * 1024  # bytes of one member, by its protocols or its assignment
_TIMEOUTS = 1000, 30 * 60 * 1000  # ms: the shortest and the longest session
_FIRST_DELAY = 0.3  # seconds for which the first rebalance waits for more members
_REQUIRES_ID = 4  # the version of JoinGroup from which a member asks again with the id that it was given
EMPTY, JOINING, SYNCING, STABLE = "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"
DEAD = "Dead"


class Member:
    """A member of a group."""

    def __init__(self, number: str, request: Fields, header: Header) -> None:
        self.id = number
        self.instance: str | None = request.get("group_instance_id")
        self.client_id = header.client_id or ""
        self.assignment = b""
        self.joining: asyncio.Future[Fields] | None = None  # its JoinGroup waits
        self.syncing: asyncio.Future[Fields] | None = None  # its SyncGroup waits
        self.seen = time.monotonic()
        self.update(request)

    def update(self, request: Fields) -> None:
        """Take what it says of itself."""
        low, high = _TIMEOUTS
        self.session = min(max(request["session_timeout"], low), high) / 1000
        name = "rebalance_timeout" if "rebalance_timeout" in request else "session_timeout"
        rebalance = request[name]
        self.rebalance = min(max(rebalance, low), high) / 1000
        self.protocols = {one["name"]: one["metadata"] or b"" for one in request["protocols"] or ()}
        self.seen = time.monotonic()


class Group:
    """A group."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol = ""
        self.leader = ""
        self.members: dict[str, Member] = {}
        self.task: asyncio.Task[None] | None = None  # ends the rebalance

    def common_protocols(self) -> set[str]:
        """Return the names of the protocols that all members know."""
        every = [set(one.protocols) for one in self.members.values()]
        return set.intersection(*every) if every else set()


class Coordinator:
    """The groups of all clients."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}

    # --- requests -------------------------------------------------------------------------------------------------
    async def join(self, request: Fields, header: Header) -> Fields:
        """Answer JoinGroup: wait until the rebalance has all members."""
        name, number = request["group_id"], request["member_id"]
        if not name:
            return _not_joined(ErrorCode.invalid_group_id, number)
        self._expire(name)
        group = self.groups.get(name)
        size = sum(len(one["name"] or "") + len(one["metadata"] or b"") for one in request["protocols"] or ())
        held = sum(len(one.members) for one in self.groups.values())
        is_new = group is None or number not in group.members
        if size > _MOST_METADATA or (is_new and held >= _MOST_MEMBERS) or (not group and self._is_full()):
            return _not_joined(ErrorCode.group_max_size_reached, number)
        instance = request.get("group_instance_id")
        if group is None:
            group = self.groups[name] = Group(name)
        if instance is not None and not number:
            number = next((one.id for one in group.members.values() if one.instance == instance), "")
        if not number:
            number = f"{instance or header.client_id or 'member'}-{uuid4()}"
            if header.version >= _REQUIRES_ID and instance is None:
                self._drop_if_empty(group)
                return _not_joined(ErrorCode.member_id_required, number)
        if group.members and request["protocol_type"] != group.protocol_type:
            return _not_joined(ErrorCode.inconsistent_group_protocol, number)
        return await self._joined(group, number, request, header)

    async def _joined(self, group: Group, number: str, request: Fields, header: Header) -> Fields:
        if not request["protocols"]:
            self._drop_if_empty(group)
            return _not_joined(ErrorCode.inconsistent_group_protocol, number)
        member = group.members.get(number)
        if member is None:
            member = Member(number, request, header)
            others = group.common_protocols()
            if group.members and not others & set(member.protocols):
                return _not_joined(ErrorCode.inconsistent_group_protocol, number)
            group.members[number] = member
        else:
            same = member.protocols == {one["name"]: one["metadata"] or b"" for one in request["protocols"]}
            member.update(request)
            if group.state == STABLE and same and number != group.leader:
                return self._member_answer(group, member)
            if group.state == SYNCING and same:
                return self._member_answer(group, member)
        group.protocol_type = request["protocol_type"]
        if member.joining is not None and not member.joining.done():
            member.joining.set_result(_not_joined(ErrorCode.rebalance_in_progress, number))
        joined: asyncio.Future[Fields] = asyncio.get_running_loop().create_future()
        member.joining = joined
        self._rebalance(group)
        return await joined

    async def sync(self, request: Fields) -> Fields:
        """Answer SyncGroup: wait for what the leader shares out."""
        found = self._member(request)
        if isinstance(found, ErrorCode):
            return {"error_code": found, "assignment": b""}
        group, member = found
        if group.state == JOINING:
            return {"error_code": ErrorCode.rebalance_in_progress, "assignment": b""}
        if group.state == SYNCING:
            shared: asyncio.Future[Fields] = asyncio.get_running_loop().create_future()
            member.syncing = shared
            if member.id == group.leader:
                self._share_out(group, request["assignments"] or ())
            return await shared
        return self._assigned(group, member)

    def heartbeat(self, request: Fields) -> Fields:
        """Answer Heartbeat."""
        found = self._member(request)
        if isinstance(found, ErrorCode):
            return {"error_code": found}
        return {"error_code": ErrorCode.rebalance_in_progress if found[0].state == JOINING else ErrorCode.none}

    def leave(self, request: Fields) -> Fields:
        """Answer LeaveGroup."""
        group = self.groups.get(request["group_id"])
        leaving = request.get("members")
        leaving = [{"member_id": request.get("member_id")}] if leaving is None else leaving
        answers, worst = [], ErrorCode.none
        for one in leaving:
            number, instance = one["member_id"], one.get("group_instance_id")
            members = {} if group is None else group.members
            if instance is not None:
                number = next((its.id for its in members.values() if its.instance == instance), number)
            error = ErrorCode.none if number in members else ErrorCode.unknown_member_id
            if group is not None and number in members:
                self._remove(group, members[number])
            answers.append({"member_id": one["member_id"], "group_instance_id": instance, "error_code": error})
            worst = error if "members" not in request else worst
        return {"error_code": worst, "members": answers}

    def describe(self, name: str) -> Fields:
        """Return what DescribeGroups says of one group."""
        self._expire(name)
        group = self.groups.get(name)
        if group is None:
            return {"error_code": ErrorCode.none, "group_id": name, "group_state": DEAD}
        members = [
            {
                "member_id": one.id,
                "group_instance_id": one.instance,
                "client_id": one.client_id,
                "client_host": "",
                "member_metadata": one.protocols.get(group.protocol, b""),
                "member_assignment": one.assignment,
            }
            for one in group.members.values()
        ]
        state = {"group_state": group.state, "protocol_type": group.protocol_type, "protocol_data": group.protocol}
        return {"error_code": ErrorCode.none, "group_id": name, "members": members, **state}

    def may_commit(self, request: Fields) -> ErrorCode:
        """Return what is wrong with who commits. Source: ClassicGroup.validateOffsetCommit."""
        self._expire(request["group_id"])
        group = self.groups.get(request["group_id"])
        name = "generation_id_or_member_epoch" if "generation_id_or_member_epoch" in request else "generation_id"
        generation = request[name]
        if group is None or not group.members:
            return ErrorCode.none if generation < 0 else ErrorCode.illegal_generation
        if generation < 0 and not request.get("member_id"):
            return ErrorCode.unknown_member_id
        found = self._member({**request, "generation_id": generation})
        return found if isinstance(found, ErrorCode) else ErrorCode.none

    # --- the life of a group --------------------------------------------------------------------------------------
    def _is_full(self) -> bool:
        for name in list(self.groups):
            self._expire(name)
        return len(self.groups) >= _MOST_GROUPS

    def _expire(self, name: str) -> None:
        """Remove the members that were not seen for as long as they promised to be."""
        group, now = self.groups.get(name), time.monotonic()
        for member in [] if group is None else list(group.members.values()):
            waits = any(one is not None and not one.done() for one in (member.joining, member.syncing))
            if not waits and member.seen + member.session < now:
                assert group is not None
                self._remove(group, member)

    def _member(self, request: Fields) -> tuple[Group, Member] | ErrorCode:
        self._expire(request["group_id"])
        group = self.groups.get(request["group_id"])
        member = None if group is None else group.members.get(request["member_id"])
        if group is None or member is None:
            return ErrorCode.unknown_member_id
        instance = request.get("group_instance_id")
        if instance is not None and member.instance != instance:
            return ErrorCode.fenced_instance_id
        if request["generation_id"] != group.generation:
            return ErrorCode.illegal_generation
        member.seen = time.monotonic()
        return group, member

    def _remove(self, group: Group, member: Member) -> None:
        group.members.pop(member.id, None)
        for waiting in (member.joining, member.syncing):
            if waiting is not None and not waiting.done():
                waiting.set_result(_not_joined(ErrorCode.unknown_member_id, member.id))
        if group.members:
            self._rebalance(group)
        else:
            self._drop_if_empty(group)

    def _drop_if_empty(self, group: Group) -> None:
        if not group.members:
            self.groups.pop(group.name, None)
            if group.task is not None:
                group.task.cancel()

    def _rebalance(self, group: Group) -> None:
        """Let all members join again, and go on when they have, or when their time is over."""
        if group.state != JOINING:
            is_first = group.state == EMPTY
            group.state = JOINING
            for member in group.members.values():
                if member.syncing is not None and not member.syncing.done():
                    member.syncing.set_result({"error_code": ErrorCode.rebalance_in_progress, "assignment": b""})
            if group.task is not None:
                group.task.cancel()
            wait = _FIRST_DELAY if is_first else max(one.rebalance for one in group.members.values())
            group.task = asyncio.ensure_future(self._end_joining(group, wait, is_first=is_first))
        elif not self._lacking(group) and group.generation:
            self._next_generation(group)

    async def _end_joining(self, group: Group, wait: float, *, is_first: bool) -> None:
        until = time.monotonic() + wait
        while time.monotonic() < until and (is_first or self._lacking(group)):
            await asyncio.sleep(min(0.1, wait))
        group.task = None
        if group.state == JOINING:
            self._next_generation(group)

    def _lacking(self, group: Group) -> list[Member]:
        return [one for one in group.members.values() if one.joining is None or one.joining.done()]

    def _next_generation(self, group: Group) -> None:
        if group.task is not None:
            group.task.cancel()
            group.task = None
        for member in self._lacking(group):
            del group.members[member.id]
        if not group.members:
            self._drop_if_empty(group)
            return
        common = group.common_protocols()
        votes = [next(name for name in one.protocols if name in common) for one in group.members.values()]
        group.protocol = max(votes, key=votes.count)
        group.generation += 1
        group.state = SYNCING
        group.leader = group.leader if group.leader in group.members else next(iter(group.members))
        for member in group.members.values():
            joining, member.joining = member.joining, None
            member.seen = time.monotonic()
            if joining is not None and not joining.done():
                joining.set_result(self._member_answer(group, member))

    def _share_out(self, group: Group, assignments: Any) -> None:  # noqa: ANN401 (of the protocol)
        shares = {one["member_id"]: one["assignment"] or b"" for one in assignments}
        group.state = STABLE
        for member in group.members.values():
            member.assignment = shares.get(member.id, b"")[:_MOST_METADATA]
            syncing, member.syncing = member.syncing, None
            if syncing is not None and not syncing.done():
                syncing.set_result(self._assigned(group, member))

    def _assigned(self, group: Group, member: Member) -> Fields:
        what = {"protocol_type": group.protocol_type, "protocol_name": group.protocol}
        return {"error_code": ErrorCode.none, "assignment": member.assignment, **what}

    def _member_answer(self, group: Group, member: Member) -> Fields:
        members = [
            {"member_id": one.id, "group_instance_id": one.instance, "metadata": one.protocols.get(group.protocol, b"")}
            for one in group.members.values()
            if member.id == group.leader
        ]
        return {
            "error_code": ErrorCode.none,
            "generation_id": group.generation,
            "protocol_type": group.protocol_type,
            "protocol_name": group.protocol,
            "leader": group.leader,
            "member_id": member.id,
            "members": members,
        }


def _not_joined(error: ErrorCode, number: str) -> Fields:
    names = {"protocol_type": "", "protocol_name": "", "leader": "", "member_id": number, "assignment": b""}
    return {"error_code": error, "generation_id": -1, "members": [], **names}
