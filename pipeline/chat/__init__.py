"""Chat models behind the providers' own protocols: OpenAI-compatible, Anthropic and Gemini."""
