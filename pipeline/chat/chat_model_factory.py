"""From the setting LIVEDEX_CHAT to a chat model."""

from __future__ import annotations

from pydantic import SecretStr

from livedex.pipeline.chat.chat_model import ChatModel
from livedex.pipeline.errors import ConfigError
from livedex.pipeline.runtime.credential_masking import mask_credentials

_POSSIBLE = "possible are extractive, openai:MODEL, ollama:MODEL, anthropic:MODEL and gemini:MODEL"
EXTRACTIVE = "extractive"


def build_chat_model(
    spec: str, *, url: str | None = None, api_key: SecretStr | None = None
) -> ChatModel | None:
    """Return the chat model that a setting names; None for extractive answers without a model.

    Args:
        spec: `extractive`, `openai:MODEL`, `ollama:MODEL`, `anthropic:MODEL` or `gemini:MODEL`.
        url: of the provider's API, or of a compatible server; None: the provider's own.
        api_key: the provider's key.

    Raises:
        ConfigError: the setting is unknown or incomplete; the message says what is possible.
    """
    kind, _, model = spec.strip().partition(":")
    if kind == EXTRACTIVE and not model:
        return None
    # here: extractive answers need no HTTP client
    from livedex.pipeline.chat import http_chat_model as http

    models = {
        "openai": (http.OpenAIChatModel, http.OPENAI_URL),
        "ollama": (http.OllamaChatModel, http.OLLAMA_URL),
        "anthropic": (http.AnthropicChatModel, http.ANTHROPIC_URL),
        "gemini": (http.GeminiChatModel, http.GEMINI_URL),
    }
    if kind not in models or not model:
        raise ConfigError(
            f"LIVEDEX_CHAT is {mask_credentials(spec)!r}, which is unknown: {_POSSIBLE}"
        )
    if kind != "ollama" and url is None and not (api_key and api_key.get_secret_value()):
        raise ConfigError(
            f"LIVEDEX_CHAT is {mask_credentials(spec)!r}: set LIVEDEX_CHAT_API_KEY, or "
            "LIVEDEX_CHAT_URL for a server of your own"
        )
    make, default = models[kind]
    return make(model, url=url or default, api_key=api_key)
