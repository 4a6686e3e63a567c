"""The folder connector; read `connector` first."""

from livedex.connectors.filesystem.comparison import DocumentDifference, FolderComparison
from livedex.connectors.filesystem.connector import FolderConnector, FolderOptions
from livedex.connectors.filesystem.scan_report import ScanReport

__all__ = [
    "DocumentDifference",
    "FolderComparison",
    "FolderConnector",
    "FolderOptions",
    "ScanReport",
]
