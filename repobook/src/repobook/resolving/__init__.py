"""From names to definitions: imports to files, references to symbols, exposed names to the functions behind them."""
