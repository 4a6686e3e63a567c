"""Text out of files."""

from livedex.pipeline.extract.embedded_data import embedded_data_spans
from livedex.pipeline.extract.extractor import ExtractedText, extract
from livedex.pipeline.extract.sanitizer import sanitize_json, sanitize_optional_text, sanitize_text
from livedex.pipeline.extract.text_formats import is_supported_file

__all__ = [
    "ExtractedText",
    "embedded_data_spans",
    "extract",
    "is_supported_file",
    "sanitize_json",
    "sanitize_optional_text",
    "sanitize_text",
]
