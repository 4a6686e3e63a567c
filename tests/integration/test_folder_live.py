"""The folder connector while it runs: files that are saved, and what is published of them."""

from __future__ import annotations

import asyncio
import os
import time

import pytest

from tests.support.pipelines.folder_connector import FolderHarness, wait_processed


async def test_atomic_saves_are_seen_and_leave_no_other_document(folders: FolderHarness) -> None:
    async with folders.running():
        for text in (b"one", b"two", b"three"):
            folders.write("a.md", text)
            await folders.intake.until(lambda now, text=text: now.get("docs/a.md") == text)
        assert folders.intake.versions("docs/a.md") == [b"one", b"two", b"three"]
        assert set(folders.intake.now) == {"docs/a.md"}


async def test_a_save_is_published_within_a_few_hundredths_of_a_second(
    folders: FolderHarness,
) -> None:
    """The figure is printed; asserted is only that it is no scan that found it."""
    async with folders.running():
        took = []
        for n in range(15):
            await asyncio.sleep(0.2)
            folders.write("a.md", f"text {n}")
            began = time.monotonic()
            await folders.intake.until(
                lambda now, n=n: now.get("docs/a.md") == f"text {n}".encode()
            )
            took.append(1000 * (time.monotonic() - began))
        print(f"\nsaved to published: median {sorted(took)[7]:.0f} ms, worst {max(took):.0f} ms")
        assert len(folders.intake.versions("docs/a.md")) == 15


async def test_a_backup_save_leaves_one_document(folders: FolderHarness) -> None:
    path = folders.write("a.md", "one")
    async with folders.running():
        path.rename(f"{path}~")
        path.write_text("two")
        await folders.intake.until(lambda now: now == {"docs/a.md": b"two"})
        await asyncio.sleep(0.3)
        assert None not in folders.intake.versions("docs/a.md"), "it was never gone"


async def test_a_file_written_in_two_steps_is_published_whole(folders: FolderHarness) -> None:
    path = folders.write("a.md", "old")
    async with folders.running():
        with path.open("w") as file:
            for _ in range(4):
                await asyncio.sleep(0.1)
                file.write("half ")
                file.flush()
        await folders.intake.until(lambda now: now.get("docs/a.md") == b"half " * 4)
        assert folders.intake.versions("docs/a.md") == [b"old", b"half " * 4]


async def test_a_save_that_truncates_first_and_closes_never_publishes_the_empty_file(
    folders: FolderHarness,
) -> None:
    path = folders.write("a.md", "old")
    async with folders.running():
        path.write_text("")
        await asyncio.sleep(0.3)
        path.write_text("new")
        await folders.intake.until(lambda now: now.get("docs/a.md") == b"new")
        assert folders.intake.versions("docs/a.md") == [b"old", b"new"]
        path.write_text("")
        await folders.intake.until(lambda now: now.get("docs/a.md") == b"")


async def test_a_file_that_never_rests_is_published_all_the_same_and_seldom(
    folders: FolderHarness,
) -> None:
    path, lines, delay_s = folders.root / "log.md", 0, 0.5
    async with folders.running(max_delay_s=delay_s), asyncio.timeout(60):
        began = time.monotonic()
        with path.open("w") as file:
            while (while_writing := len(folders.intake.versions("docs/log.md"))) < 3:
                file.write("line\n")
                file.flush()
                lines += 1
                await asyncio.sleep(0.05)
            took_s = time.monotonic() - began
        await folders.intake.until(lambda now: now["docs/log.md"] == b"line\n" * lines)
        assert while_writing <= took_s / delay_s


async def test_a_file_that_stays_open_is_published_once_its_longest_delay_is_over(
    folders: FolderHarness,
) -> None:
    async with folders.running(max_delay_s=0.5):
        with (folders.root / "open.md").open("w") as file:
            file.write("held")
            file.flush()
            await folders.intake.until(lambda now: now == {"docs/open.md": b"held"})
            file.write(" on")
            file.flush()
            await folders.intake.until(lambda now: now == {"docs/open.md": b"held on"})


async def test_of_many_quick_saves_the_last_one_wins_and_few_are_published(
    folders: FolderHarness,
) -> None:
    async with folders.running():
        began = time.monotonic()
        for n in range(60):
            folders.write("a.md", f"a{n}")
            (folders.root / "b.md").write_text(f"b{n}")
            await asyncio.sleep(0.01)
        # of a machine that is busy, on which they are less quick
        beyond_s = max(time.monotonic() - began - 1.0, 0.0)
        await folders.intake.until(lambda now: now == {"docs/a.md": b"a59", "docs/b.md": b"b59"})
        for name in ("a", "b"):
            assert len(folders.intake.versions(f"docs/{name}.md")) <= 15 + 4 * beyond_s


async def test_a_newer_text_with_an_older_time_is_seen(folders: FolderHarness) -> None:
    path = folders.write("a.md", "one")
    async with folders.running():
        aside = folders.root.parent / "aside.md"
        aside.write_text("two")
        os.utime(aside, (1_000_000_000, 1_000_000_000))
        aside.replace(path)
        await folders.intake.until(lambda now: now == {"docs/a.md": b"two"})


async def test_two_files_that_trade_names_trade_texts(folders: FolderHarness) -> None:
    a, b = folders.write("a.md", "one"), folders.write("b.md", "two")
    async with folders.running():
        a.rename(folders.root / ".x~")
        b.rename(a)
        (folders.root / ".x~").rename(b)
        await folders.intake.until(lambda now: now == {"docs/a.md": b"two", "docs/b.md": b"one"})


async def test_a_file_deleted_and_written_again_at_once_stays(folders: FolderHarness) -> None:
    path = folders.write("a.md", "0")
    async with folders.running():
        for n in range(1, 6):
            path.unlink()
            path.write_text(str(n))
            await folders.intake.until(lambda now, n=n: now.get("docs/a.md") == str(n).encode())
        assert None not in folders.intake.versions("docs/a.md")


async def test_files_that_come_and_go_leave_nothing(folders: FolderHarness) -> None:
    async with folders.running():
        for n in range(30):
            path = folders.root / f"gone-{n}.md"
            path.write_text("x")
            await asyncio.sleep(0.003 * (n % 8))
            path.unlink()
        await wait_processed(folders)
        assert [name for name in folders.intake.now if "gone" in name] == []


async def test_a_deleted_file_is_deleted(folders: FolderHarness) -> None:
    path = folders.write("a.md", "one")
    folders.write("b.md", "two")
    async with folders.running():
        path.unlink()
        await folders.intake.until(lambda now: now == {"docs/b.md": b"two"})
        assert folders.intake.versions("docs/a.md") == [b"one", None]


async def test_a_change_under_one_name_of_a_file_is_seen_under_all_its_names(
    folders: FolderHarness,
) -> None:
    """The system tells of a write under the name that was opened, and of no other hard link."""
    path = folders.write("a.md", "old")
    async with folders.running():
        for name in ("b.md", "below/c.md"):
            (folders.root / name).parent.mkdir(exist_ok=True)
            (folders.root / name).hardlink_to(path)
        await folders.intake.until(
            lambda now: set(now) == {"docs/a.md", "docs/b.md", "docs/below/c.md"}
        )
        for name in ("below/c.md", "a.md"):
            (folders.root / name).write_text(f"by {name}")
            await folders.intake.until(
                lambda now, name=name: set(now.values()) == {f"by {name}".encode()}
            )
        await asyncio.sleep(0.3)
        assert [
            len(folders.intake.versions(f"docs/{name}")) for name in ("a.md", "b.md", "below/c.md")
        ] == [3, 3, 3]


async def test_a_large_file_that_grows_is_read_less_often_and_at_once_by_whoever_asks(
    folders: FolderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livedex.connectors.filesystem.read_budget.BYTES_A_SECOND", 2_000)
    log = folders.write("log.txt", "x" * 100_000)
    async with folders.running() as connector:
        for n in range(40):
            with log.open("a") as file:
                file.write(f"line {n}\n")
            await asyncio.sleep(0.05)
        assert len(folders.intake.versions("docs/log.txt")) <= 5
        await connector.reconcile()
        assert folders.intake.now["docs/log.txt"] == log.read_bytes()
        with log.open("a") as file:
            file.write("more\n")
        await asyncio.sleep(0.2)
        log.unlink()
        await folders.intake.until(lambda now: "docs/log.txt" not in now)
