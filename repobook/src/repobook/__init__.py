"""repobook: a book of any repository, derived from its source and kept in one SQLite model."""

__version__ = "0.1.0"
