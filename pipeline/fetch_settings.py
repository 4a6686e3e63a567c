"""What may be fetched by its URL, and within which time: `LIVEDEX_FETCH_…`, read once and passed down as values."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from pipeline.fetching.hosts import Hosts


class FetchSettings(BaseModel):
    """Fetching contents by their URL.

    Attributes:
        enabled: whether anything is fetched; otherwise changes that only say where their content is are refused.
        allow_hosts: hosts that contents sent with an API key, or over Kafka, may come from though they are not public, as `host` or `host:port`,
            separated by commas. For a configured system `allow_hosts` of its source says that, and nothing here.
        timeout_s: for one content, from the name of the host to the last byte.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    allow_hosts: str = ""
    timeout_s: float = Field(default=30, gt=0, le=600)

    @field_validator("allow_hosts", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        listed = ",".join(value) if isinstance(value, list) and all(isinstance(each, str) for each in value) else value
        if isinstance(listed, str):
            _hosts(listed)
        return listed

    @property
    def hosts(self) -> Hosts:
        """`allow_hosts` as they are looked at."""
        return _hosts(self.allow_hosts)


def _hosts(listed: str) -> Hosts:
    return Hosts(host.strip() for host in listed.split(",") if host.strip())
