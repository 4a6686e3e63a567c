"""Random reads and writes of several tenants over the API, each held against what that tenant alone has written.

All use the same ids and mostly the same texts. Whatever only one has carries its mark, and the mark of another tenant must be in no answer,
be it a row, a name, a header or the text of an error. Counts must be those of the tenant's own documents.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx

IDS = [
    "a",
    "docs/a.md",
    "docs/a.md/chunks",
    "it's",
    'say "no"',
    "x' or tenant_id <> '",
    "a\nb\x1b[0m",
    "\u202eid",
    "%00",
    "../a",
    "x" * 300,
    "\u00fc//c",
]
TEXTS = [
    "the harbour of copper ledgers",
    "a velvet signal over the meadow",
    "engine and river and mosaic",
    "the warranty lasts two years",
    "",
]
COLLECTIONS = ["default", "notes", "no'tes"]
KEYS = ["kind", "lang' = 'en' or true --", "$.tenant_id", "tenant_id", "a.b", "", 'q"uote', "k" * 300]
VALUES: list[Any] = ["note", "O'Brien", "z') or true --", 7, None, True, "$1", "\\"]
_PATIENCE = 5
MARK = re.compile(r"mark[0-9]+q")


@dataclass(slots=True)
class Written:
    """A document as its tenant wrote it."""

    text: str
    collection: str
    metadata: dict[str, Any]


@dataclass
class Prier:
    """One tenant, its key, and what it has.

    Attributes:
        tokens: of its writes.
        cursors: of its pages.
        others: the priers of all tenants, whose tokens and cursors it tries.
        leaks: what was wrong, by kind.
    """

    number: int
    http: httpx.AsyncClient
    rng: random.Random
    others: Sequence[Prier] = ()
    documents: dict[str, Written] = field(default_factory=dict)
    collections: set[str] = field(default_factory=set)
    tokens: list[str] = field(default_factory=list)
    cursors: list[str] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)

    @property
    def mark(self) -> str:
        return f"mark{self.number}q"

    async def act(self) -> None:
        """One random read or write."""
        acts = {
            self.put: 8,
            self.delete: 2,
            self.read: 6,
            self.page: 4,
            self.search: 9,
            self.groups: 3,
            self.group: 2,
            self.token: 3,
            self.odd: 3,
        }
        act = self.rng.choices(list(acts), list(acts.values()))[0]
        self.asked[act.__name__] += 1
        await act()

    async def ask(self, method: str, path: str, allowed: Sequence[int], **more: Any) -> httpx.Response:
        """Ask, and hold the whole answer against the marks of others; one that was asked for may be said back."""
        answer = await self.http.request(method, path, **more)
        for _ in range(_PATIENCE):  # the machine may be slow, and whatever is asked here may be asked again
            if answer.status_code != 503:
                break
            answer = await self.http.request(method, path, **more)
        said = answer.text + str(answer.headers)
        if foreign := set(MARK.findall(said)) - {self.mark} - set(MARK.findall(f"{path} {more.get('json')}")):
            self.leaks.append(f"{method} {path[:60]!r} {more.get('json')}: {sorted(foreign)} in the answer {said[:300]}")
        if answer.status_code not in allowed:
            self.leaks.append(f"{method} {path[:60]!r} {more.get('json')}: {answer.status_code}, not {allowed}: {answer.text[:300]}")
        return answer

    def check(self, right: bool, what: str) -> None:
        """Note what was wrong."""
        if not right:
            self.leaks.append(f"{self.mark}: {what}")

    def some_id(self) -> str:
        return self.rng.choice([*IDS, f"{self.mark}/own", f"{self.rng.choice(self.others).mark}/own"])

    def some_collection(self) -> str:
        return self.rng.choice([*COLLECTIONS, f"{self.mark} own"])

    async def put(self) -> None:
        name = self.rng.choice([*IDS, f"{self.mark}/own"])
        text = self.rng.choice([*TEXTS[:-1], f"{self.rng.choice(TEXTS)} {self.mark}"])
        metadata = {self.rng.choice(KEYS): self.rng.choice(VALUES), "of": self.mark}
        made = Written(text, self.some_collection(), metadata)
        body = {"text": text, "title": f"title {self.mark}", "uri": f"urn:{self.mark}", "metadata": metadata, "collection": made.collection}
        answer = await self.ask("PUT", _path(name), [202], json=body)
        if answer.status_code == 202:
            self.documents[name] = made
            self.collections.add(made.collection)
            self.tokens.append(answer.json()["token"])

    async def delete(self) -> None:
        name = self.rng.choice([*IDS, f"{self.mark}/own"])
        if (await self.ask("DELETE", _path(name), [202])).status_code == 202:
            self.documents.pop(name, None)

    async def read(self) -> None:
        name = self.some_id()
        if MARK.match(name) and self.mark not in name:
            # The id itself is another's mark, and this tenant has nothing of that name.
            answer = await self.http.get(_path(name))
            self.check(answer.status_code == 404 and not MARK.search(answer.text), f"a document of another: {answer.text[:200]}")
            return
        written = self.documents.get(name)
        chunks_of = written is None and name.endswith("/chunks") and name.removesuffix("/chunks") in self.documents
        answer = await self.ask("GET", _path(name), [200] if written or chunks_of else [404])
        if written and answer.status_code == 200:
            document = answer.json()
            self.check(
                (document["metadata"], document["collection"], document["title"])
                == (written.metadata, written.collection, f"title {self.mark}"),
                f"{name!r} is not what was written: {answer.text[:300]}",
            )
            chunks = await self.ask("GET", _path(name) + "/chunks", [200])
            if not any(known == name + "/chunks" for known in self.documents):
                self.check(
                    "".join(c["content"] for c in chunks.json()["chunks"]) == written.text.strip(), f"{name!r} shows {chunks.text[:300]}"
                )

    async def page(self) -> None:
        params: dict[str, Any] = {"limit": self.rng.choice([1, 3, 1000])}
        if self.rng.random() < 0.4:
            params["collection"] = self.some_collection()
        if self.rng.random() < 0.3 and (cursors := self.rng.choice(self.others).cursors):
            params["cursor"] = self.rng.choice(cursors)
        answer = await self.ask("GET", "/v1/documents", [200], params=params)
        if answer.status_code != 200:
            return
        body = answer.json()
        names = [d["document_id"] for d in body["documents"]]
        self.check(set(names) <= set(self.documents), f"documents that it has not: {names}")
        wanted = [name for name, w in self.documents.items() if params.get("collection") in (None, w.collection)]
        if "cursor" not in params and params["limit"] == 1000:
            self.check(sorted(names) == sorted(wanted), f"{len(names)} documents, not {len(wanted)}")
        if body["next_cursor"] and not any(MARK.search(name) for name in names):
            self.cursors.append(body["next_cursor"])

    async def search(self) -> None:
        query = self.rng.choice([*TEXTS[:-1], self.rng.choice(self.others).mark, self.mark, "tenant_id", "' or true --", "harbour OR 1=1"])
        body: dict[str, Any] = {
            "query": query,
            "mode": self.rng.choice(["hybrid", "keyword", "vector"]),
            "limit": self.rng.choice([1, 8, 1000]),
        }
        body["include"] = self.rng.choice([["content", "metadata"], ["content", "metadata", "explain", "embedding"]])
        if self.rng.random() < 0.4:
            body["where"] = {
                self.rng.choice(KEYS): self.rng.choice([*VALUES[:4], {"exists": True}, {"in": ["note", "O'Brien"]}, {"not": "note"}])
            }
        if self.rng.random() < 0.3:
            body["collection"] = self.some_collection()
        if self.rng.random() < 0.3:
            body["document_ids"] = [self.some_id(), self.some_id()]
        answer = await self.ask("POST", "/v1/search", [200, 422], json=body)
        if answer.status_code != 200:
            return
        for hit in answer.json()["hits"]:
            written = self.documents.get(hit["document_id"])
            self.check(written is not None and hit["content"] in written.text, f"a hit that it has not: {hit}")
            if written is not None:
                own = (written.metadata, written.collection, f"title {self.mark}", f"urn:{self.mark}")
                self.check((hit["metadata"], hit["collection"], hit["title"], hit["uri"]) == own, f"a hit with what it has not: {hit}")

    async def groups(self) -> None:
        answer = await self.ask("GET", "/v1/collections", [200])
        held = Counter(w.collection for w in self.documents.values())
        told = {c["name"]: c["documents"] for c in answer.json()["collections"]}
        self.check(
            told == dict.fromkeys(self.collections | {"default"}, 0) | held, f"collections {told}, not {dict(held)} and {self.collections}"
        )

    async def group(self) -> None:
        name = self.some_collection()
        path = f"/v1/collections/{quote(name, safe='')}"
        there = name in self.collections or name == "default"
        kind = self.rng.random()
        if kind < 0.5:
            await self.ask("GET", path, [200] if there else [404])
        elif kind < 0.9:
            if (await self.ask("POST", "/v1/collections", [409] if there else [201], json={"name": name})).status_code == 201:
                self.collections.add(name)
        elif (await self.ask("DELETE", path, [202] if there else [404])).status_code == 202:
            self.documents = {n: w for n, w in self.documents.items() if w.collection != name}
            self.collections.discard(name)

    async def token(self) -> None:
        other = self.rng.choice(self.others)
        if other.tokens:
            token = self.rng.choice(other.tokens)
            answer = await self.ask("GET", f"/v1/sync/{token}", [200] if other is self else [404])
            self.check(other is not self or answer.json()["state"] in ("synced", "superseded"), f"a token that is {answer.text}")

    async def odd(self) -> None:
        other = self.rng.choice([o for o in self.others if o is not self])
        asks: list[tuple[str, str, list[int], dict[str, Any]]] = [
            ("POST", "/v1/search", [422], {"json": {"query": "a", "tenant_id": "t"}}),
            ("POST", "/v1/search", [422], {"json": {"query": "a", "where": {"k": {"or 1=1": 1}}}}),
            ("POST", "/v1/search", [422], {"json": {"query": "a", "document_ids": ["\x00"]}}),
            ("POST", "/v1/search", [422], {"json": {"query": "a", "mode": "keyword", "after": "nonsense"}}),
            ("PUT", _path("a"), [422], {"json": {"text": "x", "tenant_id": "t"}}),
            ("PUT", _path("a"), [422], {"json": {"text": "x", "collection": "\x00"}}),
            ("GET", "/v1/documents?tenant=t&tenant_id=t", [200], {"headers": {"X-Tenant": "t", "X-Tenant-ID": "t"}}),
            ("GET", "/v1/documents?cursor=%00", [422], {}),
            ("GET", "/v1/documents/%00", [404], {}),
            ("GET", "/v1/documents", [401], {"headers": {"X-API-Key": str(other.http.headers["x-api-key"])[:-1] + "x"}}),
            ("GET", "/v1/documents", [401], {"headers": {"Authorization": f"Bearer {other.http.headers['x-api-key']}"}}),
        ]
        method, path, allowed, more = self.rng.choice(asks)
        await self.ask(method, path, allowed, **more)


def _path(name: str) -> str:
    return f"/v1/documents/{quote(name, safe='')}"


async def pry(priers: Sequence[Prier], operations: int) -> list[str]:
    """Let all tenants act at the same time; what was wrong."""
    for prier in priers:
        prier.others = priers
    left = operations

    async def act(prier: Prier) -> None:
        nonlocal left
        while left > 0 and not prier.leaks:
            left -= 1
            await prier.act()

    await asyncio.gather(*(act(prier) for prier in priers))
    return [leak for prier in priers for leak in prier.leaks]
