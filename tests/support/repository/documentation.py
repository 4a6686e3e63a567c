"""Code blocks of the documents, and a working folder in which they run as a reader runs them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.http.free_port import free_port

ROOT = Path(__file__).parents[3]
LONG_RUNNING_COMMANDS = re.compile(
    r"^\s*(?:\.venv/bin/)?(?:make run|livedex up|livedex run|livedex subscribers read .*--follow)\b"
)
"""Command lines that stay until they are ended."""
DRY_RUN_COMMANDS = re.compile(r"^\s*(?:make (?!run\b)\w|\.ci/run)")
"""Command lines that would run this test again, run for minutes, or install into the environment
of these tests: their targets are only looked up.
"""
SKIPPED = re.compile(r"^\s*(?:pip install|docker) ")
"""Command lines that need a network or Docker: only their syntax is checked."""
CREATES_KEY = re.compile(r"\blivedex keys create |/v1/keys .*-d ")
"""Command lines after which every request needs a key."""
CLIENTS = re.compile(r"(?:^|[\s(|])(?:(?:\.venv/bin/)?livedex (?!up |run |hooks |--version)|curl )")
"""Command lines that expect a running Livedex."""
TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block.

    Attributes:
        section: the heading above it.
        line: where it begins, from 1.
    """

    document: str
    section: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def needs_server(text: str) -> bool:
    """Return whether a block has a command that expects a running Livedex."""
    return any(CLIENTS.search(line) for line in text.splitlines() if not SKIPPED.match(line))


def starts_server(text: str) -> bool:
    """Return whether a block starts Livedex itself."""
    return "make run" in text or "livedex up" in text


def needs_own_server(text: str) -> bool:
    """Return whether a block cannot share a running Livedex with other sections."""
    return starts_server(text) or bool(CREATES_KEY.search(text.replace("\\\n", " ")))


def blocks(document: str) -> list[Block]:
    """Return every fenced block of a document, in order."""
    found: list[Block] = []
    section, begin, language, held, indent = "", 0, "", [], 0
    for number, line in enumerate((ROOT / document).read_text("utf-8").splitlines(), 1):
        if fence := re.match(r"^( *)```(\w*)$", line):
            if begin:
                found.append(Block(document, section, begin, language, "\n".join(held) + "\n"))
                begin = 0
            else:
                begin, language, held, indent = number, fence[2], [], len(fence[1])
        elif begin:
            held.append(line[indent:])
        elif heading := re.match(r"^#+ (.+)$", line):
            section = heading[1]
    assert not begin, f"{document}: a block is not closed"
    return found


@dataclass(frozen=True)
class WorkingFolder:
    """A checkout as a reader has it, with the program installed, in which blocks are run.

    Attributes:
        port: in the place of 8700; the next one in the place of 8701.
        replaced: what stands in a document for something of the reader's own, and what it is here.
    """

    path: Path
    port: int
    replaced: Mapping[str, str]

    @property
    def environment(self) -> dict[str, str]:
        """Of what is run: the program and our curl come first, settings of whoever runs the tests
        do not come in.
        """
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith("LIVEDEX_")
        }
        return clean | {
            "PATH": f"{self.path / 'bin'}:{self.path / '.venv/bin'}:{os.environ['PATH']}",
            "CURL_LOG": str(self.path / "curl.log"),
        }

    def substitute(self, text: str) -> str:
        """Return a block with what is the reader's own put in."""
        own = {"8700": str(self.port), "8701": str(self.port + 1), "~/notes": "deploy/sample-docs"}
        for written, here in {**own, **self.replaced}.items():
            text = text.replace(written, here)
        return text

    def run_shell(self, texts: Sequence[str], *, server: bool) -> str:
        """Run blocks in one shell, one after the other, and end what they started.

        Args:
            server: start the program before the first one.

        Returns:
            What was printed.
        """
        lines = [
            line
            for text in texts
            for line in self.substitute(text).replace("\\\n", " ").splitlines()
        ]
        script = [
            _PRELUDE,
            *([f"serve livedex up deploy/sample-docs --port {self.port}"] if server else []),
            *map(self._line, lines),
        ]
        (self.path / "script.sh").write_text("\n".join(script) + "\n", "utf-8")
        with _ended_with_its_children(["bash", "script.sh"], self) as process:
            out, _ = process.communicate(timeout=2 * TIMEOUT_S)
        assert process.returncode == 0, out
        return out

    @contextmanager
    def served(self) -> Iterator[None]:
        """Run the program on the sample documents for as long as the block lasts."""
        command = ["livedex", "up", "deploy/sample-docs", "--port", str(self.port)]
        with _ended_with_its_children(command, self) as process:
            assert process.stdout is not None
            said = []
            for line in process.stdout:
                said.append(line)
                if line.startswith("ready "):
                    break
            else:
                raise AssertionError("".join(said))
            reading = threading.Thread(target=process.stdout.read)
            reading.start()  # so that it can go on writing
            yield
            process.terminate()
            reading.join(TIMEOUT_S)
            process.stdout.close()

    def restore_documents(self) -> None:
        """Make the sample documents what they were at first."""
        for arguments in (["checkout", "--quiet", "deploy"], ["clean", "-dfq", "deploy"]):
            subprocess.run(["git", *arguments], cwd=self.path, check=True, timeout=TIMEOUT_S)

    def run_python(self, text: str) -> str:
        """Run a block as a file of its own and return what it printed."""
        (self.path / "block.py").write_text(self.substitute(text), "utf-8")
        done = subprocess.run(
            [sys.executable, "block.py"],
            cwd=self.path,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def take_refusals(self) -> list[str]:
        """Return the statuses of HTTP other than 2xx that curl was answered with since the last
        call, in order.
        """
        log = self.path / "curl.log"
        statuses = log.read_text("utf-8").split() if log.exists() else []
        log.unlink(missing_ok=True)
        return [status for status in statuses if not status.startswith("2")]

    def _its_port(self, command: str) -> str:
        if command.startswith("make run"):
            return f" PORT={self.port} PIP=true INSTALL_LIVEDEX=true"
        return (
            f" --port {self.port}"
            if "--port" not in command and {"up", "api", "webhook", "all"} & set(command.split())
            else ""
        )

    def _line(self, line: str) -> str:
        command = line.split("  #")[0].rstrip()
        if LONG_RUNNING_COMMANDS.match(command):
            return f"serve {command}{self._its_port(command)}"
        if SKIPPED.match(command):
            return f"bash -n -c {shlex.quote(command)}"
        if DRY_RUN_COMMANDS.match(command):
            return (
                f"make --dry-run {command.split()[1]} PIP=true INSTALL_LIVEDEX=true"
                if command.startswith("make")
                else f"bash -n {command.split()[0]}"
            )
        return line


@contextmanager
def working_folder(
    path: Path, replaced: Mapping[str, str] | None = None, settings: str = ""
) -> Iterator[WorkingFolder]:
    """Make a checkout with the sample documents.

    Args:
        replaced: see `WorkingFolder`.
        settings: of its `livedex.toml`.
    """
    for name in (
        "Makefile",
        "pyproject.toml",
        "requirements.txt",
        "requirements-dev.txt",
        ".env.example",
    ):
        shutil.copy(ROOT / name, path / name)
    shutil.copytree(ROOT / "deploy", path / "deploy", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / ".ci", path / ".ci")
    (path / ".venv").symlink_to(sys.prefix)
    (path / "bin").mkdir()
    (path / "bin" / "curl").write_text(
        f"#!/bin/sh\nexec {shutil.which('curl')} --write-out "
        f'\'%{{stderr}}%{{http_code}}\\n\' "$@" 2>>"$CURL_LOG"\n',
        "utf-8",
    )
    (path / "bin" / "curl").chmod(0o755)
    if settings:
        (path / "livedex.toml").write_text(settings, "utf-8")
    git = [
        "git",
        "-c",
        "user.name=reader",
        "-c",
        "user.email=reader@example.org",
        "-c",
        "init.defaultBranch=main",
    ]
    for arguments in (
        ["init", "--quiet"],
        ["add", "deploy"],
        ["commit", "--quiet", "--message", "as it came"],
    ):
        subprocess.run([*git, *arguments], cwd=path, check=True, timeout=TIMEOUT_S)
    yield WorkingFolder(path, free_port(2), replaced or {})


_PRELUDE = f"""\
set -euo pipefail
trap 'jobs -p | xargs --no-run-if-empty kill -TERM 2>/dev/null || true; wait' EXIT
served=0
serve() {{
    served=$((served + 1))
    "$@" > "served-$served.log" 2>&1 &
    for _ in $(seq {TIMEOUT_S * 10}); do
        if grep --quiet --extended-regexp '^(ready|running) ' "served-$served.log" \\
            || [ "${{2:-}}" = subscribers ]; then return 0; fi
        if ! kill -0 $! 2>/dev/null; then break; fi
        sleep 0.1
    done
    echo "it did not start: $*"; cat "served-$served.log"
    return 1
}}
"""


@contextmanager
def _ended_with_its_children(
    command: Sequence[str], folder: WorkingFolder
) -> Iterator[subprocess.Popen[str]]:
    """A process in a group of its own, which is ended as a whole however the block ends."""
    process = subprocess.Popen(
        command,
        cwd=folder.path,
        env=folder.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:
                break
            time.sleep(0.2)
        process.wait()


_LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`[^`]*`")


def prose(document: str) -> list[str]:
    """Return the lines of a document outside of its blocks."""
    inside, found = False, []
    for line in (ROOT / document).read_text("utf-8").splitlines():
        if re.match(r"^ *```", line):
            inside = not inside
        elif not inside:
            found.append(line)
    return found


def anchors(document: str) -> set[str]:
    """Return the anchors of a document's headings, as GitHub and the site make them."""
    found: list[str] = []
    for line in prose(document):
        if heading := re.match(r"^#+ (.+)$", line):
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            found.append(re.sub(r"[^\w\- ]", "", text).replace(" ", "-"))
    return {
        name if not found[:n].count(name) else f"{name}-{found[:n].count(name)}"
        for n, name in enumerate(found)
    }


def broken_links(document: str) -> list[str]:
    """Return the relative links of a document whose file or anchor does not exist."""
    broken = []
    for line in prose(document):
        for link in _LINK.findall(_CODE.sub("", line)):
            name, _, anchor = link.partition("#")
            if re.match(r"[a-z]+:", link):
                continue
            target = (ROOT / document).parent / name if name else ROOT / document
            inside = target.exists() and ROOT in target.resolve().parents
            if not inside or (
                anchor
                and target.suffix == ".md"
                and anchor not in anchors(str(target.resolve().relative_to(ROOT)))
            ):
                broken.append(link)
    return broken
