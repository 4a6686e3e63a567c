"""The folder connector while it runs: directories, names, links and roots that come and go, and
what is published of them.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import socket

import pytest

from livedex.connectors.filesystem import watcher as watching
from tests.support.pipelines.folder_connector import FolderHarness, wait_processed


async def test_a_directory_moved_in_is_read_and_moved_out_is_gone(folders: FolderHarness) -> None:
    outside = folders.root.parent / "outside"
    for n, name in enumerate(["0.md", "1.md", "deep/er/2.md"]):
        (outside / name).parent.mkdir(parents=True, exist_ok=True)
        (outside / name).write_text(str(n))
    folders.write("in0/stays.md", "stays")  # the name begins alike
    folders.write("in-/stays.md", "stays")
    stays = {"docs/in0/stays.md": b"stays", "docs/in-/stays.md": b"stays"}
    async with folders.running():
        outside.rename(folders.root / "in")
        moved = {"docs/in/0.md": b"0", "docs/in/1.md": b"1", "docs/in/deep/er/2.md": b"2"}
        await folders.intake.until(lambda now: now == stays | moved)
        (folders.root / "in/deep/er/2.md").write_text("edited")
        await folders.intake.until(lambda now: now["docs/in/deep/er/2.md"] == b"edited")
        (folders.root / "in").rename(folders.root / "elsewhere")
        renamed = {
            "docs/elsewhere/0.md": b"0",
            "docs/elsewhere/1.md": b"1",
            "docs/elsewhere/deep/er/2.md": b"edited",
        }
        await folders.intake.until(lambda now: now == stays | renamed)
        (folders.root / "elsewhere/0.md").write_text("edited too")
        await folders.intake.until(lambda now: now.get("docs/elsewhere/0.md") == b"edited too")
        (folders.root / "elsewhere").rename(outside)
        await folders.intake.until(lambda now: now == stays)


async def test_a_directory_removed_is_gone(folders: FolderHarness) -> None:
    for n in range(12):
        folders.write(f"tree/{'sub/' * (n % 4)}{n}.md", str(n))
    folders.write("stays.md", "stays")
    async with folders.running():
        shutil.rmtree(folders.root / "tree")
        await folders.intake.until(lambda now: now == {"docs/stays.md": b"stays"})


async def test_nested_directories_made_and_filled_in_one_go_are_read_whole(
    folders: FolderHarness,
) -> None:
    async with folders.running():
        for n in range(200):
            path = folders.root / "go" / f"a{n % 5}" / f"b{n % 7}" / f"c{n % 3}" / f"{n}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(str(n))
        await folders.intake.until(lambda now: now == folders.on_disk())
        await asyncio.sleep(0.2)
        for n in (0, 99, 199):
            (folders.root / "go" / f"a{n % 5}" / f"b{n % 7}" / f"c{n % 3}" / f"{n}.md").write_text(
                "again"
            )
        await folders.intake.until(lambda now: now == folders.on_disk())


async def test_directories_that_go_on_being_made_are_all_watched(folders: FolderHarness) -> None:
    async with folders.running():
        for n in range(40):
            (folders.root / f"d{n}").mkdir()
            (folders.root / f"d{n}" / "a.md").write_text(str(n))
            await asyncio.sleep(0.01)
        await folders.intake.until(lambda now: now == folders.on_disk())
        for n in range(40):
            (folders.root / f"d{n}" / "b.md").write_text(str(n))
        await folders.intake.until(lambda now: now == folders.on_disk())


async def test_a_file_becomes_a_directory_of_the_same_name_and_back(folders: FolderHarness) -> None:
    path = folders.write("both.md", "file")
    async with folders.running():
        path.unlink()
        path.mkdir()
        (path / "inner.md").write_text("inner")
        await folders.intake.until(lambda now: now == {"docs/both.md/inner.md": b"inner"})
        shutil.rmtree(path)
        path.write_text("again")
        await folders.intake.until(lambda now: now == {"docs/both.md": b"again"})


async def test_a_move_is_an_add_and_a_delete_in_any_order(folders: FolderHarness) -> None:
    path = folders.write("a/foo.md", "same")
    (folders.root / "b").mkdir()
    async with folders.running():
        path.rename(folders.root / "b/foo.md")
        await folders.intake.until(lambda now: now == {"docs/b/foo.md": b"same"})


async def test_links_pipes_and_sockets_are_no_documents_and_block_nothing(
    folders: FolderHarness,
) -> None:
    outside = folders.root.parent / "secrets"
    outside.mkdir()
    (outside / "secret.md").write_text("secret")
    folders.write("circle/real.md", "real")
    (folders.root / "before.md").symlink_to(outside / "secret.md")
    (folders.root / "up").symlink_to("..")
    door = socket.socket(socket.AF_UNIX)
    here = os.open(folders.root, os.O_DIRECTORY)
    async with folders.running():
        (folders.root / "file-link.md").symlink_to("../secrets/secret.md")
        (folders.root / "directory-link").symlink_to(outside)
        (folders.root / "dangling.md").symlink_to("nowhere.md")
        (folders.root / "self.md").symlink_to("self.md")
        (folders.root / "circle/again").symlink_to(folders.root / "circle")
        os.mkfifo(folders.root / "pipe.md")
        door.bind(f"/proc/self/fd/{here}/socket.md")
        await wait_processed(folders)
        (outside / "secret.md").write_text("another secret")
        (folders.root / "pipe.md").rename(folders.root / "pipe2.md")
        await wait_processed(folders)
        assert {name for name in folders.intake.now if "last" not in name} == {
            "docs/circle/real.md"
        }
        (folders.root / "circle/real.md").unlink()
        (folders.root / "circle/real.md").symlink_to(outside / "secret.md")
        await folders.intake.until(lambda now: "docs/circle/real.md" not in now)
    door.close()
    os.close(here)


async def test_names_that_are_not_utf8_stay_apart_and_stop_nothing(folders: FolderHarness) -> None:
    root = os.fsencode(folders.root)
    async with folders.running():
        for n, name in enumerate((b"bad\xff.md", b"bad\xfe.md", b"dir\xe9/inner.md")):
            os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
            with open(os.path.join(root, name), "wb") as file:  # noqa: ASYNC230
                file.write(b"%d" % n)
        await folders.intake.until(
            lambda now: (
                now
                == {"docs/bad␛FF.md": b"0", "docs/bad␛FE.md": b"1", "docs/dir␛E9/inner.md": b"2"}
            )
        )
        (folders.root / "bad␛FF.md").write_text("namesake")
        os.unlink(os.path.join(root, b"bad\xff.md"))
        folders.write("ok.md", "ok")
        await folders.intake.until(
            lambda now: (
                now
                == {
                    "docs/bad␛E2␛90␛9BFF.md": b"namesake",
                    "docs/bad␛FE.md": b"1",
                    "docs/dir␛E9/inner.md": b"2",
                    "docs/ok.md": b"ok",
                }
            )
        )
        shutil.rmtree(os.path.join(root, b"dir\xe9"))
        await folders.intake.until(lambda now: "docs/dir␛E9/inner.md" not in now)


async def test_folders_whose_names_are_not_utf8_are_followed_also_where_they_were_there_before(
    folders: FolderHarness,
) -> None:
    inner = os.fsdecode(b"dir\xe9/inner.md")
    folders.write(inner, "old")
    async with folders.running():
        await folders.intake.until(lambda now: now == {"docs/dir␛E9/inner.md": b"old"})
        folders.write(inner, "new")
        await folders.intake.until(lambda now: now == {"docs/dir␛E9/inner.md": b"new"})
    above = folders.root.with_name(os.fsdecode(b"above\xe9"))
    above.mkdir()
    folders.root = folders.root.rename(above / "docs")
    async with folders.running():
        folders.write("here.md", "here")
        await folders.intake.until(lambda now: now.get("docs/here.md") == b"here")


async def test_ordinary_names_are_ids_as_they_are(folders: FolderHarness) -> None:
    names = [
        "with a space.md",
        "100%.md",
        "%2e%2e.md",
        "back\\slash.md",
        "line\nbreak.md",
        "bell\x07.md",
        "n" * 197 + ".md",
        "Zoe\u0308.md",
        "Zoë.md",
    ]
    names += ["Упр/раз дел/№ 5.md", "-rf.md", "$HOME `id`.md", "␛.md"]
    async with folders.running():
        for name in names:
            (folders.root / name).parent.mkdir(parents=True, exist_ok=True)
            (folders.root / name).write_text(name)
        await folders.intake.until(
            lambda now: now == {f"docs/{name}": name.encode() for name in names}
        )


async def test_a_source_that_is_one_file_is_seen_through_every_save(folders: FolderHarness) -> None:
    notes = folders.write("notes.md", "0")
    folders.write("other.md", "never")
    folders.root = notes
    async with folders.running(source={"path": notes}):
        folders.root = notes.parent
        for n in range(1, 5):
            folders.write("notes.md", str(n))
            await folders.intake.until(lambda now, n=n: now == {"docs/notes.md": str(n).encode()})
        notes.unlink()
        await folders.intake.until(lambda now: now == {})


async def test_a_root_that_is_away_deletes_nothing_and_is_followed_again_when_it_is_back(
    folders: FolderHarness,
) -> None:
    for n in range(50):
        folders.write(f"{n}.md", str(n))
    async with folders.running() as connector:
        before = dict(folders.intake.now)
        away = folders.root.rename(folders.root.with_name("away"))
        assert (await connector.reconcile()).problem
        await asyncio.sleep(1.5)
        assert folders.intake.now == before
        assert folders.health[-1][0] == "down"
        away.rename(folders.root)
        (folders.root / "new.md").write_text("new")
        await folders.intake.until(lambda now: now == before | {"docs/new.md": b"new"})
        await folders.until_health("ok", None)


@pytest.mark.parametrize("how", ["moved", "removed"])
async def test_a_root_made_anew_is_watched_again(folders: FolderHarness, how: str) -> None:
    for n in range(50):
        folders.write(f"{n}.md", str(n))
    async with folders.running():
        if how == "moved":
            folders.root.rename(folders.root.with_name("old"))
        else:
            shutil.rmtree(folders.root)
        folders.root.mkdir()
        folders.write("1.md", "new")
        await folders.intake.until(lambda now: now["docs/1.md"] == b"new")
        if how == "moved":
            assert len(folders.intake.now) == 50, "the deletes are withheld"
            await folders.until_health("down", "49 of 50")
        folders.write("2.md", "newer")
        await folders.intake.until(lambda now: now["docs/2.md"] == b"newer")


async def test_where_nothing_can_be_watched_scans_keep_the_documents_true_and_the_health_says_so(
    folders: FolderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_watches_left(*_: object) -> None:
        raise OSError(28, "OS file watch limit reached")

    monkeypatch.setattr(watching, "RustNotify", no_watches_left)
    async with folders.running():
        await folders.until_health("down", "max_user_watches")
        folders.write("a.md", "one")
        await folders.intake.until(lambda now: now == {"docs/a.md": b"one"})


async def test_hints_that_come_in_a_flood_lead_to_a_scan(folders: FolderHarness) -> None:
    async with folders.running() as connector:
        connector._following.watcher._on_hints = lambda paths: None  # type: ignore[union-attr]
        folders.write("a.md", "one")
        connector._hints.take({b"%d.png" % n for n in range(5_000)})
        await folders.intake.until(lambda now: now == {"docs/a.md": b"one"})


async def test_an_outage_of_the_broker_loses_nothing(folders: FolderHarness) -> None:
    async with folders.running():
        folders.intake.outages = 3
        folders.write("a.md", "one")
        (folders.root / "d").mkdir()
        folders.write("d/b.md", "two")
        await folders.intake.until(lambda now: now == {"docs/a.md": b"one", "docs/d/b.md": b"two"})


async def test_editors_temporary_files_and_hidden_ones_are_no_documents(
    folders: FolderHarness,
) -> None:
    async with folders.running():
        for name in (
            ".a.md.swp",
            "a.md~",
            "a.md.tmp",
            "4913",
            ".hidden/x.md",
            "~$a.md",
            ".#a.md",
            "#a.md#",
        ):
            (folders.root / name).parent.mkdir(exist_ok=True)
            (folders.root / name).write_text("x")
        await wait_processed(folders)
        assert [name for name in folders.intake.now if "last" not in name] == []


async def test_whatever_happens_in_the_end_the_documents_are_the_files(
    folders: FolderHarness,
) -> None:
    """Random operations, the same each time; after each dozen what is published must become what
    is on the disk.
    """
    import random

    rng = random.Random(7)
    names = [f"{d}{n}.md" for d in ("", "a/", "a/b/", "c/", "c/d/e/") for n in range(3)] + [
        "a",
        "c/d",
        "a/b.md",
    ]
    counter = itertools.count()

    def operate() -> None:
        path, other = (folders.root / rng.choice(names) for _ in range(2))
        match rng.randrange(9):
            case 0 | 1 | 2:
                path.parent.mkdir(parents=True, exist_ok=True)
                if not path.is_fifo():  # it would wait for a reader
                    path.write_text(f"text {next(counter)}")
            case 3:
                folders.write(str(path.relative_to(folders.root)), f"atomic {next(counter)}")
            case 4:
                path.unlink()
            case 5 | 6:
                other.parent.mkdir(parents=True, exist_ok=True)
                path.rename(other)
            case 7:
                folder = path if path.parent == folders.root else path.parent
                if folder.is_dir():
                    shutil.rmtree(folder)
            case 8:
                (
                    path.symlink_to(other.name) if rng.random() < 0.5 else os.mkfifo(path)
                ) if not path.exists() else None

    async with folders.running():
        for _ in range(25):
            for _ in range(12):
                try:
                    operate()
                except OSError:
                    continue
                if rng.random() < 0.3:
                    await asyncio.sleep(rng.random() * 0.05)
            await folders.intake.until(lambda now: now == folders.on_disk())
