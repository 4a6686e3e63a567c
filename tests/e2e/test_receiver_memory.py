"""The memory of a real process that takes documents stays below what docker-compose.yml gives it,
whatever comes at once.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx

from bench.processes import peak_mb
from tests.support.http.free_port import free_port
from tests.support.repository.compose import services
from tests.unit.test_deploy import PASSWORDS

MB = 1024 * 1024
_UNITS = {"m": MB, "g": 1024 * MB}
RAW = b"A line of text that goes on.\n" * (64 * MB // 29)


async def test_four_large_documents_at_once_are_accepted_in_bounded_memory(
    owner_url: str, tmp_path: Path
) -> None:
    limit = services(PASSWORDS)["webhook"]["deploy"]["resources"]["limits"]["memory"]
    port = free_port()
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("LIVEDEX_")
    } | {
        "LIVEDEX_DATABASE_URL": owner_url,
        "LIVEDEX_EMBEDDER": "openai:counting",
        "LIVEDEX_EMBEDDER_URL": "http://127.0.0.1:9/v1",
        "LIVEDEX_EMBEDDER_API_KEY": "none",
        "LIVEDEX_DIMENSIONS": "64",
    }
    command = [sys.executable, "-m", "livedex.cli.main", "run", "webhook", "--port", str(port)]
    process = await asyncio.to_thread(
        lambda: subprocess.Popen(
            command,
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    )
    assert process.stdout is not None
    try:
        assert await asyncio.to_thread(
            lambda out: any(b"ready http" in line for line in out), process.stdout
        )
        wrapped = json.dumps({"content_base64": base64.b64encode(RAW).decode()}).encode()
        sent = [(RAW, "text/markdown"), (wrapped, "application/json")] * 2
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", timeout=120, trust_env=False
        ) as http:
            answers = await asyncio.gather(
                *(
                    http.put(f"/v1/documents/d{n}", content=body, headers={"Content-Type": kind})
                    for n, (body, kind) in enumerate(sent)
                )
            )
        statuses = [answer.status_code for answer in answers]
        assert set(statuses) <= {202, 503} and statuses.count(202) >= 2
        assert all(
            answer.headers.get("Retry-After") for answer in answers if answer.status_code == 503
        )
        assert peak_mb(process.pid) * 1000 * 1024 < int(limit[:-1]) * _UNITS[limit[-1]]
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 60) == 0
    finally:
        process.kill()
        process.stdout.close()
