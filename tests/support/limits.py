"""Time limits for operations that once took quadratic or unbounded time, or could wait forever.

Speed is never tested: `make test` passes on a machine ten times slower than the one these
bounds were written on, while others use it too. `make accept` holds what the documentation
promises.
"""

import os

SECONDS = 2.0 if "ODT_ACCEPT_DATA" in os.environ else 20.0  # of the processor
FOREVER = 600  # seconds on the clock: what takes longer is taken to hang
