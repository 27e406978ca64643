"""The one model: an SQLite database from which every page, query and site is written."""
