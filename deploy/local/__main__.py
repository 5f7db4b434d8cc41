"""`python -m deploy.local`."""

from __future__ import annotations

import sys

from deploy.local.cli import main

sys.exit(main())
