"""`python -m ddopg` is the command `ddopg`."""

import sys

from ddopg.cli.main import main

sys.exit(main())
