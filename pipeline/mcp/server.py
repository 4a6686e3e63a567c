"""The tools and resources that agents are offered."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations
from pydantic import Field
from starlette.requests import Request

from livedex.pipeline.mcp.api_client import ApiClient, document_path, json_of

MAX_CHARACTERS = 20_000  # of an answer, unless the agent asks for another limit
_INSTRUCTIONS = (
    "Search and read documents that are kept up to date. Use search_documents to find passages, "
    "get_document to read a document, and ask for a short answer with citations. Cite documents by "
    "their ids."
)
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_WRITES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True)

MaxCharacters = Annotated[int, Field(ge=200, le=1_000_000, description="length of the answer")]
ActAs = Annotated[
    list[str] | None,
    Field(description="principals to read for; needs the scope act_as"),
]


def create_mcp_server(api: ApiClient, version: str, *, writes: bool = True) -> MCPServer[Any]:
    """Create a server.

    Args:
        api: what the tools call.
        version: of Livedex.
        writes: offer the tools that change documents, too.
    """
    server: MCPServer[Any] = MCPServer(
        "livedex", title="Livedex", instructions=_INSTRUCTIONS, version=version, log_level="WARNING"
    )

    @server.tool(annotations=_READS)
    async def search_documents(
        query: str,
        ctx: Context,
        limit: Annotated[int, Field(ge=1, le=50)] = 8,
        collection: list[str] | None = None,
        where: dict[str, Any] | None = None,
        act_as: ActAs = None,
        max_chars: MaxCharacters = MAX_CHARACTERS,
    ) -> str:
        """Find passages by meaning and by words. Returns numbered passages, best first.

        `where` filters on metadata, for example {"kind": "policy", "year": {"gte": 2024}}.
        """
        body = {"query": query, "limit": limit, "collection": collection, "where": where}
        if act_as is not None:
            body["principals"] = act_as
        answer = json_of(await api.send(_request(ctx), "POST", "/v1/search", json=_given(body)))
        return _passages(answer["hits"], max_chars)

    @server.tool(annotations=_READS)
    async def ask(
        question: str,
        ctx: Context,
        limit: Annotated[int, Field(ge=1, le=50)] = 8,
        collection: list[str] | None = None,
        act_as: ActAs = None,
        max_chars: MaxCharacters = MAX_CHARACTERS,
    ) -> str:
        """Answer a question from the documents, with citations."""
        body = {"question": question, "limit": limit, "collection": collection}
        if act_as is not None:
            body["principals"] = act_as
        answer = json_of(await api.send(_request(ctx), "POST", "/v1/ask", json=_given(body)))
        sources = [
            f"[{each['number']}] {each['document_id']} ({each['start']}-{each['end']})"
            for each in answer["citations"]
        ]
        return _fit("\n".join([answer["answer"], *sources]), max_chars)

    @server.tool(annotations=_READS)
    async def get_document(
        document_id: str,
        ctx: Context,
        act_as: ActAs = None,
        max_chars: MaxCharacters = MAX_CHARACTERS,
    ) -> str:
        """Read the text of a document, with its state and metadata."""
        params = {} if act_as is None else {"principals": act_as}
        path = document_path(document_id)
        found = json_of(await api.send(_request(ctx), "GET", path, params=params))
        chunks = json_of(await api.send(_request(ctx), "GET", f"{path}/chunks", params=params))
        text = "\n\n".join(each["content"] for each in chunks["chunks"])
        head = [f"{name}: {found[name]}" for name in ("document_id", "title", "uri", "state")]
        return _fit("\n".join([*head, f"metadata: {found['metadata']}", "", text]), max_chars)

    @server.tool(annotations=_READS)
    async def list_documents(
        ctx: Context,
        collection: str | None = None,
        state: str | None = None,
        limit: Annotated[int, Field(ge=1, le=500)] = 50,
        cursor: str | None = None,
        act_as: ActAs = None,
        max_chars: MaxCharacters = MAX_CHARACTERS,
    ) -> str:
        """List documents, a page at a time; the last line says how to get the next page."""
        params = _given(
            {"collection": collection, "state": state, "limit": limit, "cursor": cursor}
        )
        if act_as is not None:
            params["principals"] = act_as
        page = json_of(await api.send(_request(ctx), "GET", "/v1/documents", params=params))
        lines = [
            f"{each['document_id']} ({each['state']}) {each['title'] or ''}".rstrip()
            for each in page["documents"]
        ]
        if page["next_cursor"]:
            lines.append(f"next page: cursor={page['next_cursor']}")
        return _fit("\n".join(lines) or "no documents", max_chars)

    @server.tool(annotations=_READS)
    async def sync_status(
        token: str, ctx: Context, wait_s: Annotated[float, Field(ge=0, le=30)] = 10
    ) -> str:
        """Tell whether a change is searchable; wait for it for up to `wait_s` seconds."""
        found = json_of(
            await api.send(_request(ctx), "GET", f"/v1/sync/{token}", params={"wait_s": wait_s})
        )
        error = f": {found['error']}" if found.get("error") else ""
        return f"{found['state']}{error}"

    if writes:

        @server.tool(annotations=_WRITES)
        async def add_document(
            document_id: str,
            text: str,
            ctx: Context,
            title: str | None = None,
            metadata: dict[str, Any] | None = None,
            collection: str | None = None,
        ) -> str:
            """Add a document, or replace it. Returns a token for sync_status."""
            body = {"text": text, "title": title, "metadata": metadata, "collection": collection}
            done = json_of(
                await api.send(_request(ctx), "PUT", document_path(document_id), json=_given(body))
            )
            return f"accepted; token: {done['token']}"

        @server.tool(annotations=_WRITES)
        async def delete_document(document_id: str, ctx: Context) -> str:
            """Delete a document. Returns a token for sync_status."""
            done = json_of(await api.send(_request(ctx), "DELETE", document_path(document_id)))
            return f"accepted; token: {done['token']}"

    @server.resource("livedex://documents/{+document_id}", mime_type="text/plain")
    async def document(document_id: str, ctx: Context) -> str:
        """The text of a document."""
        path = f"{document_path(document_id)}/chunks"
        chunks = json_of(await api.send(_request(ctx), "GET", path))
        return "\n\n".join(each["content"] for each in chunks["chunks"])

    return server


def _request(ctx: Context) -> Request | None:
    request = ctx.request_context.request
    return request if isinstance(request, Request) else None


def _given(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None}


def _passages(hits: list[dict[str, Any]], max_chars: int) -> str:
    """Write as many passages as fit, none cut but the first one."""
    if not hits:
        return "nothing found"
    parts: list[str] = []
    left = max_chars
    for number, hit in enumerate(hits, 1):
        heading = f" > {' > '.join(hit['heading'])}" if hit["heading"] else ""
        part = f"[{number}] {hit['document_id']}{heading}\n{hit['content']}\n"
        if len(part) > left and parts:
            break
        parts.append(_fit(part, left))
        left -= len(part) + 1
    return "\n".join(parts)


def _fit(text: str, max_chars: int) -> str:
    mark = "\n[cut]"
    return text if len(text) <= max_chars else text[: max_chars - len(mark)] + mark
