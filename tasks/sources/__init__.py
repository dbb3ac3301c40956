"""Questions from data sets: ``load_source`` reads one source of the config; one file here for each known data set."""

from tasks.sources.faults import SourceError
from tasks.sources.load import Loaded, assign_shards, load_source, source_fingerprint, spread

__all__ = ["Loaded", "SourceError", "assign_shards", "load_source", "source_fingerprint", "spread"]
