"""Random graphs: odt's results are compared with one sample at a time in float64.

operators.py  the outputs of one node, by the references of tests/op_db
graphs.py     a graph for one sample, as a model file holds it
growing.py    a graph that grows at random
computing.py  how operators that compute are drawn
shaping.py    how operators that move values are drawn
cases.py      a random graph with samples and losses
reference.py  outputs, losses, gradients and steps of optimizers in float64
running.py    the same from odt
checks.py     compares the two
shrinking.py  makes a case that fails smaller
searching.py  draws and checks cases, and tells of those that fail
"""
