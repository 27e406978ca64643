"""`python -m ndgrad`: the command line."""

from ndgrad._src.command_line import main

raise SystemExit(main())
