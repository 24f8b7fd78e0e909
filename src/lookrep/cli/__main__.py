"""`python -m lookrep.cli`: the `lookrep` command."""

import sys

from lookrep.cli import main

sys.exit(main())
