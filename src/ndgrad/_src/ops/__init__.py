"""The op table, one file per family. `table` defines the declarations, `vocabulary` the ops that rules call."""
