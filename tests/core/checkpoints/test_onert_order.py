"""The order in which onert writes tensors into its checkpoints."""

from collections.abc import Iterable

import numpy as np
from support.networks import Net

from odt.core.checkpoints.onert_order import HashOrder, checkpoint_order
from odt.core.model.graph import Graph, Node, Tensor
from odt.kernels.rows.opdef import TensorSpec


def dense_graph(count: int, constants: set[int], nodes: list[tuple[int, ...]]) -> Graph:
    spec = TensorSpec((1, 1), np.dtype(np.float32))
    zero = np.zeros((1, 1), np.float32)
    tensors = tuple(
        Tensor(f"t{i}", spec, data=zero if i in constants else None) for i in range(count)
    )
    made = tuple(Node("FULLY_CONNECTED", n[:-1], n[-1:], {}, k) for k, n in enumerate(nodes))
    return Graph(tensors, made, (0,), (nodes[-1][-1],))


def test_keys_of_few_buckets_come_out_last_in_first_out() -> None:
    assert HashOrder(range(5)).keys == [4, 3, 2, 1, 0]


def test_a_key_goes_before_its_bucket() -> None:
    assert HashOrder([0, 1, 13]).keys == [1, 13, 0]


def in_turn(keys: Iterable[int], buckets: int) -> list[int]:
    """Inserts keys by the rule of the map, which does not grow."""
    order: list[int] = []
    for key in keys:
        same = [i for i, k in enumerate(order) if k % buckets == key % buckets]
        order.insert(same[0] if same else 0, key)
    return order


def test_erased_keys_leave_the_order_of_the_others() -> None:
    order = HashOrder([0, 1, 13, 2, 14])  # 13 buckets
    order.erase({1, 14, 2})
    for key in (15, 1, 26):
        order.insert(key)
    assert order.keys == in_turn([0, 13, 15, 1, 26], 13) == [1, 15, 26, 13, 0]


def test_a_map_that_grows_inserts_its_keys_again_in_their_order() -> None:
    keys = [*np.random.default_rng(1).permutation(1000).tolist()[:29]]
    small = in_turn(keys[:13], 13)
    assert HashOrder(keys).keys == in_turn([*small, *keys[13:]], 29)


def test_a_map_of_many_keys_has_the_last_key_first() -> None:
    assert HashOrder(range(100_000)).keys[:3] == [99_999, 99_998, 99_997]


def test_the_order_of_a_chain_is_the_one_onert_was_seen_to_write() -> None:
    """Fourteen tensors, input 0, output 13, constants 1, 2, 4, 5, 8, 10, 11."""
    nodes = [(0, 1, 2, 3), (3, 4, 5, 6), (6, 8, 7), (7, 10, 11, 9), (9, 12), (12, 13)]
    chain = dense_graph(14, {1, 2, 4, 5, 8, 10, 11}, nodes)
    assert checkpoint_order(chain) == [1, 2, 10, 11, 5, 8, 4]


def test_shared_constants_appear_once_for_each_use() -> None:
    net = Net()
    x = net.input(1, 4)
    w, b = net.weight(4, 4), net.weight(4)
    for _ in range(3):
        x = net.add("FULLY_CONNECTED", (x, w, b), (1, 4))
    order = checkpoint_order(net.graph(x))
    assert sorted(order) == [w, w, w, b, b, b]
