"""Text out of files."""

from livedex.pipeline.extract.embedded_data import non_text
from livedex.pipeline.extract.extractor import Extracted, extract
from livedex.pipeline.extract.sanitizer import clean_json, clean_optional, clean_text
from livedex.pipeline.extract.text_formats import is_readable

__all__ = ["Extracted", "clean_json", "clean_optional", "clean_text", "extract", "is_readable", "non_text"]
