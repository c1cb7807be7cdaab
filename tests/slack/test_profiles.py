"""`profile` in Slack: the real bot takes a real profile from a pretended cluster and answers with its files."""

import asyncio
import io
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from PIL import Image

from bot.kube.client.connect import open_cluster
from bot.main import running
from bot.pprof.decode import read
from bot.pprof.top import top
from bot.settings.schema import ClusterSettings, ProfileSettings
from bot.slack.render.report import CANCEL
from bot.store import open_beside, open_store
from bot.store.audit import Verified
from handlers.parsing.question import Question
from handlers.profiles.captures import AT_ONCE
from playbooks.playbook import Sources
from sandbox.apiserver import ApiServer
from sandbox.apiserver.recordings import read_recording
from sandbox.slack import SlackServer
from tests.pprof.cases import PROFILES
from tests.slack.bot import AUDIT_KEY, PATIENT, RECORDING, settings, staged
from tests.slack.changing import actions, text_of
from tests.slack.deliveries import sent

ROOM = "gpu-oncall"
SEED = read_recording(RECORDING)
NAMESPACE, POD = "hami-system", "hami-scheduler-995f44d84-7gvtd"
CPU = SEED.profiles[NAMESPACE, POD, "profile"]


@dataclass
class World:
    """The workspace, the cluster, and a gate through which the seconds of a profile pass."""

    slack: SlackServer
    cluster: ApiServer
    folder: Path
    gate: asyncio.Event
    waited: list[float] = field(default_factory=list)

    async def answer(self, containing: str, user: str = "grace") -> dict[str, Any]:
        return await self.slack.wait_for(channel=ROOM, containing=containing, user=user)

    async def files(self, ts: str, count: int = 4) -> dict[str, bytes]:
        """The files in the thread of a message, by name, once there are so many."""
        found = await self.slack.wait_for(lambda: files if len(files := self.in_thread(ts)) >= count else None)
        async with aiohttp.ClientSession() as session:
            return {file["name"]: await (await session.get(file["url_private"])).read() for file in found}

    def in_thread(self, ts: str) -> list[dict[str, Any]]:
        replies = self.slack.messages(ROOM, "grace", thread_ts=ts)
        return [file for reply in replies for file in reply.get("files", [])]

    async def pressed_late(self, user: str, value: str, ts: str) -> None:
        """A click on a button that is not there any more, as a client that has not heard of it sends it."""
        pressed = {"type": "button", "block_id": "b", "action_id": CANCEL, "value": value, "action_ts": "1"}
        who, room = self.slack.workspace.user_id(user), self.slack.workspace.channel_id(ROOM)
        where = {"container": {"type": "message", "message_ts": ts}, "channel": {"id": room}}
        await sent(self.slack, "block_actions", user={"id": who}, actions=[pressed], trigger_id="late", **where)

    async def kept(self) -> list[str]:
        """The ids, the newest first."""
        async with open_beside(f"sqlite:///{self.folder / 'bot.db'}") as store:
            return [profile.id for profile in await store.profiles.listed()]

    async def audited(self) -> list[tuple[str, ...]]:
        """What the log says of profiles: outcome, who, of what, and which kind."""
        async with open_beside(f"sqlite:///{self.folder / 'bot.db'}") as store:
            found = [line for line in await store.audit.read(10) if line.action == "profile"]
        return [(entry.outcome, entry.actor, entry.target, entry.detail["kind"]) for entry in found[::-1]]

    def captures(self) -> list[str]:
        return [request.path for request in self.cluster.requests if request.path.endswith("debug/pprof/profile")]


Scene = Callable[[World], Awaitable[None]]


async def until(holds: Callable[[], object]) -> None:
    """Asks until it is so: nothing in the workspace tells."""
    async with asyncio.timeout(180):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@asynccontextmanager
async def profiled(
    tmp_path: Path,
    held: bool = False,
    profiles: ProfileSettings = ProfileSettings(),  # noqa: B008  # it is a constant
    clusters: Sequence[str] = (),
    served: dict[tuple[str, str, str], bytes] = SEED.profiles,
) -> AsyncGenerator["World"]:
    over = {"profiles": profiles, "clusters": dict.fromkeys(clusters, ClusterSettings())}
    async with asyncio.timeout(180), a_world(tmp_path, over, served, held=held) as world:
        yield world
        assert world.slack.unknown_methods == []


played = staged(profiled)


@asynccontextmanager
async def a_world(
    folder: Path, over: dict[str, Any], served: dict[tuple[str, str, str], bytes], *, held: bool
) -> AsyncGenerator[World]:
    gate, waited = asyncio.Event(), list[float]()
    if not held:
        gate.set()

    async def pass_through(seconds: float) -> None:
        waited.append(seconds)
        await gate.wait()

    pretended = ApiServer(SEED.objects, profiles=served, profile_wait=pass_through)
    async with SlackServer(deadline_s=60) as slack, pretended as cluster:
        config = folder / "kubeconfig"
        config.write_text(cluster.kubeconfig())

        @asynccontextmanager
        async def sources(name: str) -> AsyncGenerator[Sources]:
            async with await open_cluster(name=name, kubeconfig=config) as opened:
                yield Sources(opened, ports=opened)

        wanted = settings(slack, folder).model_copy(update=over)
        async with running(wanted, wanted.slack, sources, PATIENT):
            yield World(slack, cluster, folder, gate, waited)


@played()
async def test_a_cpu_profile_is_answered_with_all_its_files_and_looked_at_again_without_the_cluster(
    world: World,
) -> None:
    await world.slack.command("ada", ROOM, "profile cpu 5s")
    answer = await world.answer("560ms in 10 s")
    assert not answer.get("ephemeral")
    assert "linux.Syscall6" in text_of(answer)
    files = await world.files(answer["ts"])
    assert files["cpu-3d1451de.pb.gz"] == CPU
    assert Image.open(io.BytesIO(files["cpu-3d1451de.png"])).width == 1600
    assert b"<!doctype html>" in files["cpu-3d1451de.html"]
    assert files["cpu-3d1451de.top.txt"] == top(read(CPU)).encode()
    assert world.waited == [5.0]

    asked = len(world.cluster.requests)
    await world.slack.command("ada", ROOM, "profile kept")
    listed = await world.answer("1 profile is kept", "ada")
    assert listed["ephemeral"]
    assert "cpu-3d1451de" in text_of(listed)
    await world.slack.command("ada", ROOM, "profile top -nodecount=3 cpu-3d1451de")
    assert "File: scheduler" in text_of(await world.answer("Showing top 3 nodes", "ada"))
    await world.slack.command("ada", ROOM, "profile compare cpu-3d1451de v2.10.0")
    assert "no change beyond noise" in text_of(await world.answer("beyond noise", "ada"))
    assert len(world.cluster.requests) == asked


@played()
async def test_a_profile_asked_for_in_a_thread_is_answered_there(world: World) -> None:
    head = await world.slack.say("ada", ROOM, "the scheduler is slow")
    await world.slack.mention("ada", ROOM, "profile heap", thread_ts=head.ts)
    answer = await world.slack.wait_for(channel=ROOM, containing="Memory in use of ", thread_ts=head.ts)
    assert answer["thread_ts"] == head.ts
    assert {".png", ".txt", ".html", ".gz"} <= {Path(name).suffix for name in await world.files(head.ts)}


@played(held=True)
async def test_while_it_is_taken_everybody_sees_for_how_long_and_may_cancel_which_ends_the_capture(
    world: World,
) -> None:
    await world.slack.command("ada", ROOM, "profile cpu 60s")
    taking = await world.answer("about")
    assert "a cpu profile of HAMi's scheduler" in text_of(taking)
    assert world.cluster.ports.profiling == {(NAMESPACE, POD)}
    await world.slack.click("grace", CANCEL, channel=ROOM, message_ts=taking["ts"])
    told = await world.answer("cancelled by")
    assert told["ts"] == taking["ts"]
    assert CANCEL not in actions(told)
    await until(lambda: not world.cluster.ports.profiling)
    await world.pressed_late("grace", actions(taking)[CANCEL], told["ts"])
    late = await world.answer("you cannot cancel it here", "grace")
    assert late["ephemeral"]


@played(held=True)
async def test_who_cancels_a_shared_capture_leaves_it_to_the_other(world: World) -> None:
    await world.slack.command("ada", ROOM, "profile cpu 60s")
    await until(world.captures)
    await world.slack.command("grace", ROOM, "profile cpu 60s")
    joined = await world.answer("both requests share one")
    await world.slack.click("grace", CANCEL, channel=ROOM, message_ts=joined["ts"])
    await world.answer("cancelled by")
    world.gate.set()
    await world.answer("560ms in 10 s")


@played(held=True, clusters=["prod"], served={(NAMESPACE, POD, "profile"): b"no profile"})
async def test_the_usual_cluster_is_the_same_whether_it_is_named_or_not(world: World) -> None:
    place = f"https://{NAMESPACE}/{POD}:443"
    await world.slack.command("ada", ROOM, f"profile cpu 60s --target {place}")
    await until(world.captures)
    await world.slack.command("grace", ROOM, f"profile cpu 60s --target {place} --cluster prod")
    await world.answer("both requests share one")
    assert len(world.captures()) == 1
    assert {target for _, _, target, _ in await world.audited()} == {f"prod:{place}"}
    world.gate.set()


async def test_room_is_asked_for_after_the_audit_log_when_nothing_is_waited_for_any_more(tmp_path: Path) -> None:
    """Whether there is something to share is decided then: what was being taken may have ended meanwhile."""
    kinds = ("heap", "allocs", "goroutine")
    async with profiled(tmp_path, held=True, served={(NAMESPACE, POD, kind): b"no profile" for kind in kinds}) as world:
        for kind in ("heap", "allocs"):
            await world.slack.command("ada", ROOM, f"profile {kind} 5s")
        await until(lambda: len(world.waited) == AT_ONCE)
        await world.slack.command("grace", ROOM, f"profile goroutine 5s --target https://{NAMESPACE}/{POD}:443")
        while not await world.audited():  # noqa: ASYNC110  # as in `until`
            await asyncio.sleep(0.01)
        assert len(world.waited) == AT_ONCE
        world.gate.set()


@played()
async def test_somebody_else_at_it_is_understood(world: World) -> None:
    world.cluster.ports.profiling.add((NAMESPACE, POD))
    await world.slack.command("ada", ROOM, "profile cpu 5s")
    told = await world.answer("cpu profiling already in use")
    assert "ask again in a minute" in text_of(told)


@played(served={})
async def test_where_profiles_are_off_it_offers_to_switch_them_on(world: World) -> None:
    await world.slack.command("ada", ROOM, "profile cpu 5s")
    told = await world.answer("serves no profiles")
    assert "HTTP 404: 404 page not found" in text_of(told)
    assert any("profiling on for 15m" in value for value in actions(told).values())
    assert await world.kept() == []


@played(profiles=ProfileSettings(longest_s=45))
async def test_longer_than_the_settings_allow_is_refused(world: World) -> None:
    await world.slack.command("ada", ROOM, "profile cpu 90s")
    told = await world.answer("90 s is too long: at most 45 s", "ada")
    assert "profile cpu 45s" in text_of(told)
    assert world.captures() == []


@played()
async def test_no_pod_outside_hamis_namespace_is_asked_for_who_asks_in_slack(world: World) -> None:
    await world.slack.command("ada", ROOM, "profile heap --target kube-system/etcd-0:2379")
    told = await world.answer("no profiles are taken of pods in namespace kube-system")
    assert "profiles.namespaces" in text_of(told)
    assert not any("etcd-0" in request.path for request in world.cluster.requests)
    ada, etcd = world.slack.workspace.user_id("ada"), "http://kube-system/etcd-0:2379"
    assert await world.audited() == [("requested", ada, etcd, "heap"), ("refused", ada, etcd, "heap")]


@played()
async def test_who_takes_a_profile_of_another_program_is_in_the_audit_log_and_of_hamis_own_nothing(
    world: World,
) -> None:
    await world.slack.command("ada", ROOM, "profile heap")
    await world.answer("Memory in use of")
    place = f"https://{NAMESPACE}/{POD}:443"
    await world.slack.command("ada", ROOM, f"profile cpu 5s --target {place}")
    await world.answer("CPU of")
    ada = world.slack.workspace.user_id("ada")
    assert await world.audited() == [("requested", ada, place, "cpu"), ("taken", ada, place, "cpu")]


@played()
async def test_a_running_bot_signs_the_audit_log_with_the_key_of_its_settings(world: World) -> None:
    await world.slack.command("ada", ROOM, f"profile cpu 5s --target https://{NAMESPACE}/{POD}:443")
    await world.answer("CPU of")
    async with open_beside(f"sqlite:///{world.folder / 'bot.db'}", audit_keys=(AUDIT_KEY,)) as store:
        found = await store.audit.verify()
    assert isinstance(found, Verified)
    assert (found.entries, found.signed_from) == (2, 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("profile top /etc/passwd", "no profile '/etc/passwd' is kept"),
        ("profile top -base=/etc/passwd cpu-3d1451de", "no profile '/etc/passwd' is kept"),
        ("profile top cpu-3d1451de", "no profile 'cpu-3d1451de' is kept"),
        ("profile list -source=/etc x cpu-3d1451de", "it is for a shell"),
        ("profile cup", "did you mean 'cpu'?"),
        ("profile cpu soon", "'soon' is not a duration"),
        ("profile cpu --target nowhere", "'nowhere' is not NAMESPACE/POD:PORT"),
    ],
)
@played()
async def test_a_mistake_is_told_to_who_made_it_alone_and_no_file_of_the_bot_is_read(
    world: World, *, words: str, said: str
) -> None:
    await world.slack.command("ada", ROOM, words)
    told = await world.answer(said, "ada")
    assert told["ephemeral"]


async def test_one_that_a_process_did_not_live_to_answer_is_not_left_without_a_word(tmp_path: Path) -> None:
    asked = Question("profile cpu 60s", "U0ADA00001", "C0GPUONC01", time.time(), public=True)
    async with open_store(f"sqlite:///{tmp_path / 'bot.db'}") as store:
        await store.claim("Ev0", msgspec.json.encode(asked).decode())
    async with profiled(tmp_path) as world:
        told = await world.answer("the bot restarted while it took the profile")
        assert "profile cpu 30s" in text_of(told)
        assert world.captures() == []


async def test_what_stands_out_comes_with_a_button_that_shows_its_lines_from_the_kept_profile(tmp_path: Path) -> None:
    busy = (PROFILES / "before.cpu.pb.gz").read_bytes()
    async with profiled(tmp_path, served={(NAMESPACE, POD, "profile"): busy}) as world:
        await world.slack.command("ada", ROOM, "profile cpu 5s")
        answer = await world.answer("is for JSON")
        name = next(name for name, value in actions(answer).items() if '"profile list' in value)
        await world.slack.click("grace", name, channel=ROOM, message_ts=answer["ts"])
        shown = await world.slack.wait_for(channel=ROOM, containing="ROUTINE ====", user="grace")
        assert "main." in text_of(shown)
        assert len(world.captures()) == 1
