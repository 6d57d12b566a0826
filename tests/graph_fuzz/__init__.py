"""Random graphs, computed one sample at a time in float64 and compared with what odt makes of them.

operators.py  the outputs of one node, by the references of tests/op_db
graphs.py     a graph for one sample, as a model file holds it
reference.py  its outputs, losses, gradients and steps of optimizers in float64
running.py    the same from odt
"""
