"""`python -m ndgrad`: the command line."""

from ndgrad.command_line import main

raise SystemExit(main())
