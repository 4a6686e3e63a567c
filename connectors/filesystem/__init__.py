"""The folder connector; read `connector` first."""

from livedex.connectors.filesystem.comparison import Comparison, Difference
from livedex.connectors.filesystem.connector import FolderConnector, FolderOptions
from livedex.connectors.filesystem.scan_report import Report

__all__ = ["Comparison", "Difference", "FolderConnector", "FolderOptions", "Report"]
