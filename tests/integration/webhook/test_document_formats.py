"""Documents of office programs over HTTP, through all stages, on both brokers."""

from __future__ import annotations

import base64

from tests.support.builders.office_files import docx, pdf
from tests.support.http.scripted_embedder import EmbeddingServer
from tests.support.pipelines.installation import InProcessInstallation

_TEXT = "A parcel can be returned within 30 days, whatever the weather says about it today."


async def _put(site: InProcessInstallation, document_id: str, content: bytes, mime: str) -> str:
    body = {"content_base64": base64.b64encode(content).decode(), "mime_type": mime}
    answer = await site.http.put(f"/v1/documents/{document_id}", json=body)
    assert answer.status_code == 202, answer.text
    return await site.state(answer.json()["token"], wait_s=30)


async def test_a_file_that_is_saved_again_embeds_nothing(
    site: InProcessInstallation, embedder: EmbeddingServer
) -> None:
    word = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    assert await _put(site, "a", docx(("H1", "Refunds"), _TEXT, saved="01"), word) == "synced"
    assert await _put(site, "b", pdf([_TEXT], saved="1"), "application/pdf") == "synced"
    paid = len(embedder.answered)
    assert paid >= 1 and any(_TEXT in text for text in embedder.answered)
    assert await _put(site, "a", docx(("H1", "Refunds"), _TEXT, saved="02"), word) == "synced"
    assert await _put(site, "b", pdf([_TEXT], saved="2"), "application/pdf") == "synced"
    assert len(embedder.answered) == paid
    found = (await site.http.get("/v1/documents/a")).json()
    assert (found["title"], found["metadata"]["author"]) == ("A report", "Ann")


async def test_a_damaged_file_is_in_its_state_and_disturbs_no_other(
    site: InProcessInstallation,
) -> None:
    await _put(site, "bad", b"%PDF-1.7 broken", "application/pdf")
    assert await _put(site, "good", pdf([_TEXT]), "application/pdf") == "synced"
    found = (await site.http.get("/v1/documents/bad")).json()
    assert found["state"] == "corrupt" and "damaged" in found["error"]
