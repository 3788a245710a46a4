"""Drills of hostility from inside the machine: fuzzed sockets, scanned ports, a stolen name."""

import asyncio
import contextlib
import random
import socket
import stat
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import zmq

from cluster.wire.endpoints import Endpoints
from cluster.wire.ids import engine_identity
from cluster.wire.sockets import connect_dealer, new_context
from loadtests.drills.drill import Drill
from loadtests.drills.faults import num_deaths, wait
from loadtests.drills.growth import MemoryGrowth
from loadtests.drills.stage import Stage
from loadtests.drills.wire_attacker import WireAttacker

MOST_MORE_MEBIBYTES = 200
"""What a process may have grown by after the attack; queues in flight are bounded, and freed."""
CONNECTIONS_AT_ONCE = 400
KEEP_ALIVE_SECONDS = 5
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01NULL"
"""The beginning of ZeroMQ's greeting, which then stops."""


async def fuzz_wire(stage: Stage) -> None:
    """Every socket gets every hostile message, under load."""
    cluster = await stage.launch()
    memory = await MemoryGrowth.start(cluster)
    sent: dict[str, int] = {}
    async with stage.load(concurrency=12) as load:
        await load.until_streaming()
        stage.fault("hostile messages to every socket")
        for seed in range(stage.scaled(5)):
            attacker = WireAttacker(cluster.run_directory, seed)
            for name, number in (await asyncio.to_thread(attacker.attack)).items():
                sent[name] = sent.get(name, 0) + number
        stage.recovered("the attack is over")
        await load.until_tokens(500)
    stage.figure("hostile messages", sum(sent.values()))
    stage.check("every kind of socket was attacked", _kinds(sent) >= {"requests", "outputs", "reports",
                "view", "control"}, ", ".join(sorted(sent)))  # fmt: skip
    counted = await asyncio.to_thread(cluster.metric, "quadriga_wire_bad_frames_total")
    stage.figure("of them counted as bad", counted)
    stage.check("most were counted", counted > 0.5 * sum(sent.values()), f"{counted:g} counted")
    stage.check("no process ended", await num_deaths(stage) == 0 and not await restarts(stage))
    await memory.check(stage, MOST_MORE_MEBIBYTES)
    check_log(stage)
    await stage.settle()


def _kinds(names: dict[str, int]) -> set[str]:
    return {name.rpartition(".")[2] for name in names}


async def restarts(stage: Stage) -> int:
    """How often anything but an engine was started anew."""
    status = await asyncio.to_thread(stage.cluster.status)
    return sum(process.incarnation - 1 for process in status.processes if process.role != "engine")


def check_log(stage: Stage) -> None:
    """No exception that nobody expected is in the log."""
    log = stage.cluster.log()
    found = [
        line for line in log.splitlines() if "Traceback" in line or "could not be handled" in line
    ]
    stage.check("no exception in the log", not found, "; ".join(found[:3]))


async def port_scan(stage: Stage) -> None:
    """All listening sockets are found and connected to with raw bytes."""
    cluster = await stage.launch(f"--keep-alive-timeout={KEEP_ALIVE_SECONDS}")
    status = await asyncio.to_thread(cluster.status)
    pids = [cluster.process.pid, *(process.pid for process in status.processes)]
    tcp = {address for pid in pids for address in listening_tcp(pid)}
    port = urlsplit(cluster.url).port
    stage.check(
        "only the HTTP port is open to TCP", {found for _, found in tcp} == {port}, f"{tcp}"
    )
    foreign = [
        path for pid in pids for path in listening_unix(pid)
        if Path(path).parent != cluster.run_directory
    ]  # fmt: skip
    stage.check("all other sockets are in the run directory", not foreign, ", ".join(foreign))
    mode = stat.S_IMODE(cluster.run_directory.stat().st_mode)
    stage.check("nobody else may enter it", mode == 0o700, f"{mode:o}")
    memory = await MemoryGrowth.start(cluster)
    async with stage.load(concurrency=12) as load:
        await load.until_streaming()
        stage.fault("raw bytes to every socket")
        addresses = [str(path) for path in WireAttacker(cluster.run_directory).sockets()]
        for address in addresses:
            await asyncio.to_thread(knock, address, stage.scaled(5))
        await asyncio.to_thread(knock, ("127.0.0.1", port or 0), stage.scaled(5))
        await load.until_tokens(500)
    stage.figure("sockets", len(addresses) + 1)
    stage.check("no process ended", await num_deaths(stage) == 0 and not await restarts(stage))
    await memory.check(stage, MOST_MORE_MEBIBYTES)
    check_log(stage)
    await wait(KEEP_ALIVE_SECONDS)  # a connection that has never said anything is dropped after it
    await stage.settle()


def listening_tcp(pid: int) -> list[tuple[str, int]]:
    """Addresses at which a process listens."""
    return [
        (connection.laddr.ip, connection.laddr.port)
        for connection in psutil.Process(pid).net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN or connection.type == socket.SOCK_DGRAM
    ]


def listening_unix(pid: int) -> list[str]:
    """Names of the unix sockets that a process has bound."""
    connections = psutil.Process(pid).net_connections(kind="unix")
    return [str(connection.laddr) for connection in connections if connection.laddr]


def knock(address: str | tuple[str, int], rounds: int) -> None:
    """Connect in many ways that are none: garbage, half a greeting, silence, and thousands at once."""
    source = random.Random(rounds)
    pieces = [b"", b"\x00", GREETING, GREETING[:5], b"GET / HTTP/1.1\r\n", source.randbytes(5000),
              b"\xff" * 64, GREETING + bytes(60)]  # fmt: skip
    for _ in range(rounds):
        for piece in pieces:
            with contextlib.suppress(OSError), _connect(address) as raw:
                raw.sendall(piece)
        with contextlib.ExitStack() as stack:
            for number in range(CONNECTIONS_AT_ONCE):
                with contextlib.suppress(OSError):
                    raw = stack.enter_context(_connect(address))
                    raw.sendall(pieces[number % len(pieces)][:10])


def _connect(address: str | tuple[str, int]) -> socket.socket:
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    raw = socket.socket(family)
    raw.settimeout(1.0)
    try:
        raw.connect(address)
    except OSError:
        raw.close()
        raise
    return raw


async def duplicate_identity(stage: Stage) -> None:
    """A stranger connects under the name of a live engine, again and again, amid requests."""
    cluster = await stage.launch()
    engine = await asyncio.to_thread(cluster.find, "engine 0")
    frontends = await asyncio.to_thread(cluster.processes, "frontend")
    addresses = [
        Endpoints(cluster.run_directory).frontend(frontend.index, frontend.incarnation).requests
        for frontend in frontends
    ]
    identity = engine_identity(0, engine.incarnation)
    stolen = 0
    async with stage.load(concurrency=16) as load:
        for _ in range(stage.scaled(20, 4)):
            await load.until_streaming()
            stage.fault("a stranger takes engine 0's name")
            stolen += await asyncio.to_thread(steal, addresses, identity)
            await load.until_tokens(300)
        stage.recovered("the stranger is gone")
    stage.figure("messages that reached the stranger", stolen)
    stage.check("nothing reached the stranger", stolen == 0, f"{stolen} messages")
    serving = await asyncio.to_thread(cluster.engines)
    stage.check("both engines serve", [e["state"] for e in serving] == ["ready", "ready"])
    await stage.settle()


def steal(addresses: list[str], identity: bytes, seconds: float = 0.4) -> int:
    """Be somebody else for a moment; how many messages came that were not for us."""
    context = new_context()
    sockets = [connect_dealer(context, address, identity) for address in addresses]
    received = 0
    poller = zmq.Poller()
    for each in sockets:
        poller.register(each, zmq.POLLIN)
        each.send_multipart([b"not", b"a message"])
    for _ in range(round(seconds / 0.1)):
        for each, _event in poller.poll(100):
            each.recv_multipart()
            received += 1
    context.destroy(linger=0)
    return received


DRILLS = (
    Drill(
        "fuzz-wire",
        "Every socket gets random, cut, swollen, mistyped and replayed messages: nothing ends, "
        "memory stays bounded, all is counted, requests are served.",
        fuzz_wire,
    ),
    Drill(
        "port-scan",
        "Only the HTTP port is open, all else is in a private folder, and raw connections of every "
        "kind do no harm.",
        port_scan,
    ),
    Drill(
        "duplicate-identity",
        "A stranger connects under a live engine's name: it gets nothing, and no request is lost.",
        duplicate_identity,
    ),
)
