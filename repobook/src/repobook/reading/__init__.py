"""From the bytes of one file to its facts: symbols, references, imports, notes, findings."""
