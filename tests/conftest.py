"""For all tests."""

import signal

# A shell has what it runs in the background ignore Ctrl-C, and all that is started from there inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)
