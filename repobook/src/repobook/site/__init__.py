"""The book as a static HTML site: the same pages, source with an anchor per line, search without a server."""
