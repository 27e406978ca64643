"""The op table, one file per family. `table` defines the language of declarations, `vocabulary` the words of rules."""
