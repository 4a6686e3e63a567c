"""Take credentials out of texts that are shown: errors, log lines, and what other systems say."""

from __future__ import annotations

import re

MASK = "***"

_NAMES = (
    r"(?<![A-Za-z])(?:password|passwd|pwd|secret|token|api[_-]?key|access[_-]?key|secret[_-]?key|"
    r"signature|credentials?|x-amz-\w+|authorization|sig|auth|key)"
)

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    # API keys of ours; their ids are told
    (re.compile(r"(ldx_[0-9a-f]{1,12})_[0-9A-Za-z_-]+"), rf"\1_{MASK}"),
    # user:password@ and token@ of a URL; the password may hold an unescaped @, so the last one
    # before the path ends it
    (
        re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,30}://)[^\s/?#'\"<>]{1,2000}@"),
        rf"\g<scheme>{MASK}@",
    ),
    # ?api_key=… of a URL, password=… of a connection string; "token": "…" of JSON, where the value
    # is long enough to be one
    (
        re.compile(
            rf"(?i)(?P<name>{_NAMES}[\"']?\s{{0,3}}=\s{{0,3}}[\"']?)(?:bearer\s+|basic\s+)?"
            rf"[^\s&\"',;#}}{{\])]{{1,4000}}"
        ),
        rf"\g<name>{MASK}",
    ),
    (
        re.compile(
            rf"(?i)(?P<name>{_NAMES}[\"']?\s{{0,3}}:\s{{0,3}}[\"']?)(?:bearer\s+|basic\s+)?"
            rf"[^\s&\"',;#}}{{\])]{{8,4000}}"
        ),
        rf"\g<name>{MASK}",
    ),
    (re.compile(r"(?i)\b(?P<kind>bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,4000}"), rf"\g<kind> {MASK}"),
    # keys that name themselves: OpenAI and others (sk-, pk-), Standard Webhooks, GitHub, GitLab,
    # Slack, AWS, Google, tokens (JWT)
    (
        re.compile(
            r"\b(?:[sp]k[-_][A-Za-z0-9_-]{8,}|whsec_[A-Za-z0-9+/=]{8,}|"
            r"gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|"
            r"xox[abprs]-[\w-]{8,}"
            r"|(?:AKIA|ASIA)[A-Z0-9]{12,}|AIza[\w-]{20,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
        ),
        MASK,
    ),
)


def mask_credentials(text: str, *secrets: str | None) -> str:
    """Return a text in which credentials are replaced by `***`.

    Args:
        text: to be shown.
        secrets: values that must not be shown wherever they stand; shorter than 4 characters they
            are left alone.

    Hosts, ports and paths of URLs stay, since they say what to check.
    """
    for secret in secrets:
        if secret and len(secret) >= 4:
            text = text.replace(secret, MASK)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text
