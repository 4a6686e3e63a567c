"""Text out of files."""

from pipeline.extract.cleaning import clean_json, clean_optional, clean_text
from pipeline.extract.extraction import Extracted, extract
from pipeline.extract.formats import is_readable
from pipeline.extract.non_text import non_text

__all__ = ["Extracted", "clean_json", "clean_optional", "clean_text", "extract", "is_readable", "non_text"]
