"""`python -m ddopg` is the command `ddopg`."""

import sys

from ddopg.cli import main

sys.exit(main())
