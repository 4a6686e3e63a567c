"""Apply JSON merge patches (RFC 7396) to the metadata of documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from livedex.pipeline.acl import normalize_acl
from livedex.pipeline.model import DEFAULT_COLLECTION, Attributes

PATCH_FIELDS = ("title", "uri", "metadata", "acl", "collection")
"""Fields of a patch."""


def merge_patch(target: Any, patch: Any) -> Any:
    """Return a value with a patch applied: objects are merged, and null removes a member.

    Args:
        target: before the patch.
        patch: JSON value.

    Source: RFC 7396, section 2.
    """
    if not isinstance(patch, Mapping):
        return patch
    found = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = merge_patch(found.get(name), value)
    return found


def patch_attributes(attributes: Attributes, patch: Mapping[str, Any]) -> Attributes:
    """Return attributes with a patch applied.

    Args:
        attributes: before the patch.
        patch: some of `PATCH_FIELDS`; null removes a title, URI or metadata, makes the document
            readable for the whole tenant, or moves it to the default collection.
    """
    found = attributes
    if "title" in patch:
        found = replace(found, title=patch["title"])
    if "uri" in patch:
        found = replace(found, uri=patch["uri"])
    if "metadata" in patch:
        found = replace(
            found,
            metadata={}
            if patch["metadata"] is None
            else merge_patch(found.metadata, patch["metadata"]),
        )
    if "acl" in patch:
        found = replace(
            found, acl=None if patch["acl"] is None else normalize_acl(tuple(patch["acl"]))
        )
    if "collection" in patch:
        found = replace(found, collection=patch["collection"] or DEFAULT_COLLECTION)
    return found
