"""Settings for fetching content by URL: `LIVEDEX_FETCH_…`."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

from livedex.pipeline.fetch.host_allowlist import HostAllowlist
from livedex.pipeline.settings.catalog import setting_field

MAX_UNEXPECTED_RETRY_S = 180.0


class FetchSettings(BaseModel):
    """Settings for fetching content by URL; each field has a description."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = setting_field(
        True, "Whether Livedex fetches content by URL. `false` refuses changes that only have a URL"
    )
    allow_hosts: str = setting_field(
        "",
        "Private hosts from which content may be fetched, as `HOST` or `HOST:PORT`, "
        "separated by commas. It applies to content sent with a key or over Kafka; webhook "
        "sources have an `allow_hosts` of their own",
    )
    timeout_s: float = setting_field(
        30, "Seconds for fetching one content, redirects included", gt=0, le=600
    )
    retry_s: float = setting_field(
        1800,
        "Minimum seconds for which a failed fetch of a webhook source is retried while its "
        "server is unavailable, answers 5xx or rate-limits; 180 seconds at most if the "
        "server answers with something else than the content. 0 means five attempts",
        ge=0,
        le=86_400,
    )

    @field_validator("allow_hosts", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        listed = (
            ",".join(value)
            if isinstance(value, list) and all(isinstance(each, str) for each in value)
            else value
        )
        if isinstance(listed, str):
            _hosts(listed)
        return listed

    @property
    def hosts(self) -> HostAllowlist:
        """Return `allow_hosts` in parsed form."""
        return _hosts(self.allow_hosts)


def _hosts(listed: str) -> HostAllowlist:
    return HostAllowlist(host.strip() for host in listed.split(",") if host.strip())
