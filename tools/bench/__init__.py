"""`make bench`: measures odt and its peers on the same work, and writes a report.

Modules named measure_… run in a peer's environment, one process a measurement; they and what they
import need only NumPy and the peer.
"""
