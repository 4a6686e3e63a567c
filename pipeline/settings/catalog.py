"""One description of each setting (validation, default, text), from which documentation, compose
file and error messages are generated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pydantic import BaseModel, Field, SecretStr
from pydantic_core import PydanticUndefined

_SHOWN = "shown_default"


def setting_field(
    default: Any, description: str, *, shown: str | None = None, **bounds: Any
) -> Any:
    """Return the field of a setting, for the class body of a settings model.

    Args:
        default: value if the setting is not set.
        description: effect and unit, in Markdown; the documentation contains it verbatim.
        shown: default for the documentation, if it differs from the value.
        **bounds: of `pydantic.Field`.
    """
    return Field(
        default=default,
        description=description,
        json_schema_extra={_SHOWN: shown} if shown is not None else None,
        **bounds,
    )


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting as users see it.

    Attributes:
        variable: the environment variable, such as `LIVEDEX_CHUNK_SIZE`.
        key: the name in `livedex.toml`, such as `chunk_size`.
        default: as the documentation shows it; empty: no default.
        description: Markdown, one paragraph.
        group: to which it belongs, such as `kafka`; empty: no group.
        choices: allowed values; empty: not limited to a list.
        secret: whether its value must not be shown.
    """

    variable: str
    key: str
    default: str
    description: str
    group: str
    choices: tuple[str, ...]
    secret: bool


def list_settings(
    model: type[BaseModel],
    *,
    prefix: str,
    groups: Mapping[str, type[BaseModel]],
    without: Sequence[str] = (),
) -> list[Setting]:
    """Return the settings of a model in the order of their declaration, those of groups last.

    Args:
        model: with the settings as fields.
        prefix: of the environment variables.
        groups: models of grouped settings by field name.
        without: fields that are not environment variables.
    """
    own = [
        _setting(model, name, "", prefix)
        for name in model.model_fields
        if name not in groups and name not in without
    ]
    return own + [
        _setting(inner, name, group, prefix)
        for group, inner in groups.items()
        for name in inner.model_fields
    ]


def _setting(model: type[BaseModel], name: str, group: str, prefix: str) -> Setting:
    field = model.model_fields[name]
    key = f"{group}_{name}" if group else name
    extra = field.json_schema_extra
    shown = (
        str(extra[_SHOWN]) if isinstance(extra, dict) and _SHOWN in extra else _shown(field.default)
    )
    choices = (
        tuple(map(str, get_args(field.annotation)))
        if getattr(field.annotation, "__origin__", None) is Literal
        else ()
    )
    secret = SecretStr in (field.annotation, *get_args(field.annotation))
    return Setting(
        prefix + key.upper(), key, shown, field.description or "", group, choices, secret
    )


def _shown(default: Any) -> str:
    if default is None or default is PydanticUndefined or default == "":
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"
