"""Random reads and writes of several tenants over the API, each held against what that tenant alone
has written.

All use the same ids and mostly the same texts. Whatever only one has carries its mark, and the mark
of another tenant must be in no answer, be it a row, a name, a header or the text of an error.
Counts must be those of the tenant's own documents. Reads are on random behalfs: what stands under
rights names them, and is in no answer to who lacks them.
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

from tests.support.models.readers import (
    FULL_ACCESS,
    PRINCIPALS,
    ActingReader,
    acl_marker,
    random_acl,
    random_reader,
)

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
KEYS = [
    "kind",
    "lang' = 'en' or true --",
    "$.tenant_id",
    "tenant_id",
    "a.b",
    "",
    'q"uote',
    "k" * 300,
]
VALUES: list[Any] = ["note", "O'Brien", "z') or true --", 7, None, True, "$1", "\\"]
_PATIENCE = 5
MARK = re.compile(r"mark[0-9]+q")


@dataclass(slots=True)
class StoredDocument:
    """A document as its tenant wrote it."""

    text: str
    collection: str
    metadata: dict[str, Any]
    title: str
    acl: list[str] | None


@dataclass
class TenantProbe:
    """One tenant, its keys, and what it has.

    Attributes:
        http: with a key that reads and writes everything.
        behalf: with a key that reads on somebody's behalf.
        tokens: of its writes, with the document of each.
        cursors: of its pages.
        others: the priers of all tenants, whose tokens and cursors it tries.
        leaks: what was wrong, by kind.
    """

    number: int
    http: httpx.AsyncClient
    behalf: httpx.AsyncClient
    rng: random.Random
    others: Sequence[TenantProbe] = ()
    documents: dict[str, StoredDocument] = field(default_factory=dict)
    collections: set[str] = field(default_factory=set)
    tokens: dict[str, str] = field(default_factory=dict)
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

    async def ask(
        self,
        method: str,
        path: str,
        allowed: Sequence[int],
        *,
        eye: ActingReader = FULL_ACCESS,
        **more: Any,
    ) -> httpx.Response:
        """Ask, and hold the whole answer against the marks of others and what is hidden; one that
        was asked for may be said back.
        """
        http = self.http if eye.principals is None else self.behalf
        if method == "GET":
            more["params"] = [*more.get("params", {}).items(), *eye.query()] or None
        answer = await http.request(method, path, **more)
        # the machine may be slow, and whatever is asked here may be asked again
        for _ in range(_PATIENCE):
            if answer.status_code != 503:
                break
            answer = await http.request(method, path, **more)
        said = answer.text + str(answer.headers)
        if hidden := set(eye.forbidden(said)) - set(eye.forbidden(f"{path} {more.get('json')}")):
            self.leaks.append(
                f"{method} {path[:60]!r} {more.get('json')} for {eye}: {sorted(hidden)} in "
                f"the answer {said[:300]}"
            )
        if (
            foreign := set(MARK.findall(said))
            - {self.mark}
            - set(MARK.findall(f"{path} {more.get('json')}"))
        ):
            self.leaks.append(
                f"{method} {path[:60]!r} {more.get('json')}: {sorted(foreign)} in the answer "
                f"{said[:300]}"
            )
        if answer.status_code not in allowed:
            self.leaks.append(
                f"{method} {path[:60]!r} {more.get('json')}: {answer.status_code}, not "
                f"{allowed}: {answer.text[:300]}"
            )
        return answer

    def check(self, right: bool, what: str) -> None:
        """Note what was wrong."""
        if not right:
            self.leaks.append(f"{self.mark}: {what}")

    def seen(self, eye: ActingReader) -> dict[str, StoredDocument]:
        """What it has, as far as somebody may read it."""
        return {
            name: written for name, written in self.documents.items() if eye.may_read(written.acl)
        }

    def some_id(self) -> str:
        return self.rng.choice(
            [*IDS, f"{self.mark}/own", f"{self.rng.choice(self.others).mark}/own"]
        )

    def some_collection(self) -> str:
        return self.rng.choice([*COLLECTIONS, f"{self.mark} own"])

    async def put(self) -> None:
        name = self.rng.choice([*IDS, f"{self.mark}/own"])
        text = self.rng.choice([*TEXTS[:-1], f"{self.rng.choice(TEXTS)} {self.mark}"])
        metadata = {self.rng.choice(KEYS): self.rng.choice(VALUES), "of": self.mark}
        acl = random_acl(self.rng)
        metadata |= {"rights": acl_marker(acl)}
        made = StoredDocument(
            f"{text} {acl_marker(acl)}".strip(),
            self.some_collection(),
            metadata,
            f"title {self.mark} {acl_marker(acl)}",
            acl,
        )
        body = {
            "text": made.text,
            "title": made.title,
            "uri": f"urn:{self.mark}",
            "metadata": metadata,
            "collection": made.collection,
            "acl": acl,
        }
        answer = await self.ask("PUT", _path(name), [202], json=body)
        if answer.status_code == 202:
            self.documents[name] = made
            self.collections.add(made.collection)
            self.tokens[answer.json()["token"]] = name

    async def delete(self) -> None:
        name = self.rng.choice([*IDS, f"{self.mark}/own"])
        if (await self.ask("DELETE", _path(name), [202])).status_code == 202:
            self.documents.pop(name, None)

    async def read(self) -> None:
        name = self.some_id()
        if MARK.match(name) and self.mark not in name:
            # The id itself is another's mark, and this tenant has nothing of that name.
            answer = await self.http.get(_path(name))
            self.check(
                answer.status_code == 404 and not MARK.search(answer.text),
                f"a document of another: {answer.text[:200]}",
            )
            return
        eye = random_reader(self.rng)
        written = self.seen(eye).get(name)
        answer = await self.ask("GET", _path(name), [200] if written else [404], eye=eye)
        if written and answer.status_code == 200:
            document = answer.json()
            self.check(
                (document["metadata"], document["collection"], document["title"], document["acl"])
                == (written.metadata, written.collection, written.title, eye.told(written.acl)),
                f"{name!r} is not what was written, for {eye}: {answer.text[:300]}",
            )
        chunks = await self.ask(
            "GET",
            _path(name) + "/chunks",
            [200] if written or name + "/chunks" in self.seen(eye) else [404],
            eye=eye,
        )
        if written and chunks.status_code == 200 and name + "/chunks" not in self.seen(eye):
            self.check(
                "".join(c["content"] for c in chunks.json()["chunks"]) == written.text.strip(),
                f"{name!r} shows {chunks.text[:300]}",
            )

    async def page(self) -> None:
        params: dict[str, Any] = {"limit": self.rng.choice([1, 3, 1000])}
        if self.rng.random() < 0.4:
            params["collection"] = self.some_collection()
        if self.rng.random() < 0.3 and (cursors := self.rng.choice(self.others).cursors):
            params["cursor"] = self.rng.choice(cursors)
        eye = random_reader(self.rng)
        answer = await self.ask("GET", "/v1/documents", [200], eye=eye, params=params)
        if answer.status_code != 200:
            return
        body = answer.json()
        names = [d["document_id"] for d in body["documents"]]
        self.check(set(names) <= set(self.seen(eye)), f"documents that {eye} has not: {names}")
        wanted = [
            name
            for name, w in self.seen(eye).items()
            if params.get("collection") in (None, w.collection)
        ]
        if "cursor" not in params and params["limit"] == 1000:
            self.check(
                sorted(names) == sorted(wanted),
                f"{len(names)} documents, not {len(wanted)}, for {eye}",
            )
        if body["next_cursor"] and not any(MARK.search(name) for name in names):
            self.cursors.append(body["next_cursor"])

    async def search(self) -> None:
        eye, acl = random_reader(self.rng), random_acl(self.rng)
        query = self.rng.choice(
            [
                *TEXTS[:-1],
                self.rng.choice(self.others).mark,
                self.mark,
                "tenant_id",
                "' or true --",
                "harbour OR 1=1",
                acl_marker(acl) or "only0q",
            ]
        )
        body: dict[str, Any] = {
            "query": query,
            "mode": self.rng.choice(["hybrid", "keyword", "vector"]),
            "limit": self.rng.choice([1, 8, 1000]),
            **eye.body(),
        }
        body["include"] = self.rng.choice(
            [["content", "metadata"], ["content", "metadata", "explain", "embedding"]]
        )
        if self.rng.random() < 0.4:
            body["where"] = {
                self.rng.choice(KEYS): self.rng.choice(
                    [*VALUES[:4], {"exists": True}, {"in": ["note", "O'Brien"]}, {"not": "note"}]
                )
            }
        elif self.rng.random() < 0.2:
            body["where"] = {"rights": acl_marker(acl)}
        if self.rng.random() < 0.3:
            body["collection"] = self.some_collection()
        if self.rng.random() < 0.3:
            body["document_ids"] = [self.some_id(), self.some_id()]
        answer = await self.ask("POST", "/v1/search", [200, 422], eye=eye, json=body)
        if answer.status_code != 200:
            return
        hits, seen = answer.json()["hits"], self.seen(eye)
        if body["mode"] == "vector" and body["limit"] == 1000:
            await self._compare(eye, body, hits)
        for hit in hits:
            written = seen.get(hit["document_id"])
            self.check(
                written is not None and hit["content"] in written.text,
                f"a hit that {eye} has not: {hit}",
            )
            if written is not None:
                own = (written.metadata, written.collection, written.title, f"urn:{self.mark}")
                self.check(
                    (hit["metadata"], hit["collection"], hit["title"], hit["uri"]) == own,
                    f"a hit with what it has not: {hit}",
                )

    async def _compare(
        self, eye: ActingReader, body: dict[str, Any], hits: list[dict[str, Any]]
    ) -> None:
        """Hold all hits of the vector leg against those of who reads everything: rights take hits
        away, and move none.
        """
        whole = {name: value for name, value in body.items() if name != "principals"}
        everything = (await self.ask("POST", "/v1/search", [200], json=whole)).json()["hits"]
        told, wanted = (
            [(h["document_id"], h["chunk_index"], h["score"]) for h in some]
            for some in (hits, everything)
        )
        wanted = [place for place in wanted if place[0] in self.seen(eye)]
        self.check(told == wanted, f"{eye} finds by {body}: {told}, not {wanted}")
        if not body.keys() & {"where", "collection", "document_ids"}:
            self.check(
                {place[0] for place in told} == set(self.seen(eye)),
                f"{eye} finds by {body}: {told}, not all of {set(self.seen(eye))}",
            )

    async def groups(self) -> None:
        eye = random_reader(self.rng)
        answer = await self.ask("GET", "/v1/collections", [200], eye=eye)
        held = Counter(w.collection for w in self.seen(eye).values())
        told = {c["name"]: c["documents"] for c in answer.json()["collections"]}
        self.check(
            told == dict.fromkeys(self.collections | {"default"}, 0) | held,
            f"collections {told}, not {dict(held)} and {self.collections}, for {eye}",
        )

    async def group(self) -> None:
        name = self.some_collection()
        path = f"/v1/collections/{quote(name, safe='')}"
        there = name in self.collections or name == "default"
        kind = self.rng.random()
        if kind < 0.5:
            eye = random_reader(self.rng)
            answer = await self.ask("GET", path, [200] if there else [404], eye=eye)
            count = sum(w.collection == name for w in self.seen(eye).values())
            self.check(
                not there or answer.json()["documents"] == count,
                f"{answer.text}, not {count}, for {eye}",
            )
        elif kind < 0.9:
            if (
                await self.ask(
                    "POST", "/v1/collections", [409] if there else [201], json={"name": name}
                )
            ).status_code == 201:
                self.collections.add(name)
        elif (await self.ask("DELETE", path, [202] if there else [404])).status_code == 202:
            self.documents = {n: w for n, w in self.documents.items() if w.collection != name}
            self.collections.discard(name)

    async def token(self) -> None:
        other = self.rng.choice(self.others)
        if other.tokens:
            token, eye = self.rng.choice(list(other.tokens)), random_reader(self.rng)
            answer = await self.ask(
                "GET", f"/v1/sync/{token}", [200] if other is self else [404], eye=eye
            )
            if other is self and (name := self.tokens[token]) in self.documents:
                ended = ("synced", "superseded") if name in self.seen(eye) else ("pending",)
                self.check(
                    answer.json()["state"] in ended, f"a token that is {answer.text} for {eye}"
                )

    async def odd(self) -> None:
        other = self.rng.choice([o for o in self.others if o is not self])
        asks: list[tuple[str, str, list[int], dict[str, Any]]] = [
            ("POST", "/v1/search", [422], {"json": {"query": "a", "tenant_id": "t"}}),
            ("POST", "/v1/search", [422], {"json": {"query": "a", "where": {"k": {"or 1=1": 1}}}}),
            ("POST", "/v1/search", [422], {"json": {"query": "a", "document_ids": ["\x00"]}}),
            (
                "POST",
                "/v1/search",
                [422],
                {"json": {"query": "a", "mode": "keyword", "after": "nonsense"}},
            ),
            ("PUT", _path("a"), [422], {"json": {"text": "x", "tenant_id": "t"}}),
            ("PUT", _path("a"), [422], {"json": {"text": "x", "collection": "\x00"}}),
            ("GET", "/v1/documents", [200], {"headers": {"X-Tenant": "t", "X-Tenant-ID": "t"}}),
            ("GET", "/v1/documents?tenant=t&tenant_id=t", [422], {}),
            ("POST", "/v1/search", [403], {"json": {"query": "a", "principals": [PRINCIPALS[0]]}}),
            ("GET", "/v1/sync/x?principals=ann", [403], {}),
            ("PUT", _path("a"), [422], {"json": {"text": "x", "acl": [" ann"]}}),
            ("DELETE", _path("a"), [403], {"eye": ActingReader(frozenset(PRINCIPALS))}),
            (
                "POST",
                "/v1/search",
                [422],
                {"json": {"query": "a", "principals": ["*"]}, "eye": ActingReader(frozenset())},
            ),
            (
                "POST",
                "/v1/search?principals=ann",
                [422],
                {"json": {"query": "a"}, "eye": ActingReader(frozenset())},
            ),
            ("GET", "/v1/documents?cursor=%00", [422], {}),
            ("GET", "/v1/documents/%00", [404], {}),
            (
                "GET",
                "/v1/documents",
                [401],
                {"headers": {"X-API-Key": str(other.http.headers["x-api-key"])[:-1] + "x"}},
            ),
            (
                "GET",
                "/v1/documents",
                [401],
                {"headers": {"Authorization": f"Bearer {other.http.headers['x-api-key']}"}},
            ),
        ]
        method, path, allowed, more = self.rng.choice(asks)
        await self.ask(method, path, allowed, **more)


def _path(name: str) -> str:
    return f"/v1/documents/{quote(name, safe='')}"


async def probe_tenants(priers: Sequence[TenantProbe], operations: int) -> list[str]:
    """Let all tenants act at the same time; what was wrong."""
    for prier in priers:
        prier.others = priers
    left = operations

    async def act(prier: TenantProbe) -> None:
        nonlocal left
        while left > 0 and not prier.leaks:
            left -= 1
            await prier.act()

    await asyncio.gather(*(act(prier) for prier in priers))
    return [leak for prier in priers for leak in prier.leaks]
