"""A process that was told to stop ends, whatever hangs in it."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from livedex.app.shutdown import FORCED, NOT_DRAINED, start_deadline

HANGS = {
    "nothing": "pass",
    "a coroutine": "await asyncio.Event().wait()",
    "a coroutine that is shielded": "await asyncio.shield(asyncio.Event().wait())",
    "a coroutine that swallows its end": "await stubborn()",
    "the event loop": "threading.Event().wait()",
    "a thread of the executor": "asyncio.get_running_loop().run_in_executor(None, "
    "threading.Event().wait)",
    "a thread": "threading.Thread(target=threading.Event().wait).start()",
}


def program(hang: str, grace_s: float) -> subprocess.Popen[str]:
    """A process that drains by what hangs, and says when it can be stopped."""
    code = f"""
        import asyncio, threading
        from livedex.cli.running import run_event_loop
        from livedex.app.shutdown import stop_signal

        async def stubborn():
            while True:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    pass

        async def main():
            stop = stop_signal({grace_s})
            print("ready", flush=True)
            await stop.wait()
            print("stopping", flush=True)
            {hang}

        run_event_loop(main())
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("what", HANGS)
def test_it_ends_within_its_grace_whatever_hangs(what: str) -> None:
    process = program(HANGS[what], 60 if what == "nothing" else 0.3)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=30)
    if what == "nothing":
        assert (process.returncode, said) == (0, "")
    else:
        assert process.returncode == NOT_DRAINED
        [line] = said.splitlines()
        assert "0.3 s" in line and "next start" in line


@pytest.mark.parametrize(
    "what", ["a coroutine", "a coroutine that swallows its end", "the event loop", "a thread"]
)
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(what: str, second: signal.Signals) -> None:
    process = program(HANGS[what], 600)
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None and process.stdout.readline() == "stopping\n"
    time.sleep(0.05)  # until it hangs
    process.send_signal(second)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (FORCED, "")


def test_a_deadline_that_is_not_needed_does_nothing() -> None:
    ended: list[int] = []
    reached = threading.Event()
    start_deadline(600, ended.append).cancel()
    start_deadline(0.01, lambda status: (ended.append(status), reached.set()))
    assert reached.wait(30) and ended == [NOT_DRAINED]
