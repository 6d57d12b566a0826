"""The order of tensors in onert's checkpoints.

onert stores weights without names, in the iteration order of its compiler's hash maps (libstdc++,
identity hash). The order depends on the graph alone; this module simulates it, for builds with
libstdc++.
"""

from collections.abc import Iterable

from odt.core.model.graph import ABSENT, Graph

# Bucket counts of libstdc++'s growing maps, each at least twice the one before.
_BUCKETS = (
    *(13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229, 172933),
    *(351061, 712697, 1447153, 2938679, 5967347, 12117689),
)

FIRST_BUCKETS = 11  # that the first insertion of libstdc++ asks for, at least


class HashOrder:
    """The iteration order of a std::unordered_map<uint32> with identity hash.

    A new key is inserted before the first key of its bucket, or before all keys if its bucket is
    empty. When the map grows, the keys are inserted again in their order, by the same rule.
    """

    def __init__(self, keys: Iterable[int] = ()) -> None:
        self._buckets = 1
        self._limit = 0
        self._size = 0
        # Bucket → its keys, as the keys of a mapping; both in the order of insertion, of which that
        # of the map is the reverse.
        self._chains: dict[int, dict[int, None]] = {}
        for key in keys:
            self.insert(key)

    @property
    def keys(self) -> list[int]:
        """The keys in the order of the map."""
        return [k for chain in reversed(self._chains.values()) for k in reversed(chain)]

    def insert(self, key: int) -> None:
        """Inserts a key, unless the map has it."""
        if key in self._chains.get(key % self._buckets, {}):
            return
        self._size += 1
        if self._size > self._limit:
            need = max(self._size, 0 if self._limit else FIRST_BUCKETS)
            if need >= self._buckets:
                least = max(need + 1, 2 * self._buckets)
                old = self.keys
                self._buckets = next(n for n in _BUCKETS if n >= least)
                self._chains = {}
                for k in old:
                    self._place(k)
            self._limit = self._buckets
        self._place(key)

    def erase(self, keys: set[int]) -> None:
        """Removes keys; the other keys keep their order and buckets."""
        for key in keys:
            bucket = key % self._buckets
            chain = self._chains.get(bucket, {})
            if key in chain:
                del chain[key]
                self._size -= 1
                if not chain:
                    del self._chains[bucket]

    def _place(self, key: int) -> None:
        self._chains.setdefault(key % self._buckets, {})[key] = None


def checkpoint_order(graph: Graph) -> list[int]:
    """Returns the constants' tensor indices in checkpoint order, a shared one once for each use.

    Args:
        graph: graph as in the file.
    """
    count = len(graph.tensors)
    used = {i for n in graph.nodes for i in (*n.inputs, *n.outputs) if i != ABSENT}
    used.update(graph.inputs, graph.outputs)
    constants = {i: i for i in sorted(used) if graph.tensors[i].data is not None}

    # A copy of a map inserts the keys in the order in which it iterates over the original.
    operands = HashOrder(range(count))
    operands.erase(set(range(count)) - used)
    operands = HashOrder(operands.keys)
    target, loss = count, count + 1
    operands.insert(target)
    operands.insert(loss)
    operands = HashOrder(operands.keys)
    number = count + 2
    for tensor in _copies(graph):
        operands.insert(number)
        constants[number] = tensor
        number += 1
    permuted_output = set()
    for key in list(operands.keys):
        if key in graph.outputs or key in graph.inputs or key == target:
            operands.insert(number)
            if key in graph.outputs:
                permuted_output.add(number)
            number += 1
    elsewhere = {*graph.inputs, target, *permuted_output}
    backend = HashOrder(k for k in operands.keys if k not in elsewhere)
    trained = HashOrder(k for k in HashOrder(backend.keys).keys if k in constants)
    return [constants[k] for k in trained.keys]


def _copies(graph: Graph) -> list[int]:
    """Returns the tensors of the copies that onert makes of constants with several readers.

    The last operator keeps the original. For each of its constants in turn, the other readers get
    copies, from the last reader to the first.
    """
    users: dict[int, list[int]] = {}
    for k, node in enumerate(graph.nodes):
        for i in node.inputs:
            if i != ABSENT and graph.tensors[i].data is not None:
                users.setdefault(i, []).append(k)
    copies = []
    for k in reversed(range(len(graph.nodes))):
        for i in graph.nodes[k].inputs:
            if i in users and users[i][-1] == k:
                copies += [i] * (len(users.pop(i)) - 1)
    return copies
