"""The folder connector; read `connector` first."""

from connectors.filesystem.comparing import Comparison, Difference
from connectors.filesystem.connector import FolderConnector, FolderOptions
from connectors.filesystem.reports import Report

__all__ = ["Comparison", "Difference", "FolderConnector", "FolderOptions", "Report"]
