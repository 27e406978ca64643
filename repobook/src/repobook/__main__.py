from repobook.cli import main

raise SystemExit(main())
