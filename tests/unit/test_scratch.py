"""Where tests put what they throw away, and that a killed run leaves nothing behind for good."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.postgres import scratch
from tests.support.postgres.scratch import scratch_folder

HOLDS = (
    "import sys, time; from pathlib import Path; from tests.support.postgres import scratch; "
    "scratch._MEMORY = Path(sys.argv[1])\n"
)
HOLDS += (
    "with scratch.scratch_folder() as folder:\n    print(folder, flush=True)\n    time.sleep(600)\n"
)


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands for the folder that is in memory; with room."""
    monkeypatch.setattr(scratch, "_MEMORY", tmp_path)
    monkeypatch.setattr(scratch, "_ROOM_BYTES", 0)
    return tmp_path


def test_it_is_in_memory_and_gone_after_use(memory: Path) -> None:
    with scratch_folder() as one, scratch_folder() as other:
        (one / "a").write_text("text")
        assert {one.parent, other.parent} == {memory} and one != other
        assert list(other.iterdir()) == []
    assert list(memory.iterdir()) == []


def test_where_there_is_no_room_it_is_on_the_disk(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "_ROOM_BYTES", 1 << 62)
    with scratch_folder() as folder:
        assert folder.parent == Path(tempfile.gettempdir())
    assert not folder.exists()


def test_where_there_is_no_such_folder_it_is_on_the_disk(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "_MEMORY", memory / "nowhere")
    with scratch_folder() as folder:
        assert folder.parent == Path(tempfile.gettempdir())


def test_what_a_killed_run_left_goes_and_what_a_run_uses_stays(memory: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(memory)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        theirs = Path(process.stdout.readline().strip())
        (theirs / "data").mkdir()
        with scratch_folder():
            assert theirs.is_dir()
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert theirs.is_dir()
        with scratch_folder() as ours:
            assert [path for path in memory.iterdir() if path.is_dir()] == [ours]
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
