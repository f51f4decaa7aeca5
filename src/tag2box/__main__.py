"""`python -m tag2box`."""

import sys

from tag2box.cli import main

sys.exit(main())
