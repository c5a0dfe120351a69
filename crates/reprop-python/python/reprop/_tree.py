"""States made of several arrays: tuples, lists and dictionaries, nested."""

from collections.abc import Callable, Iterator
from typing import Any


def flatten(tree: Any) -> list[Any]:
    """The leaves in order; of a dictionary in the order of its sorted keys, so that two of the same keys agree.

    >>> flatten((1, [2, {"b": 3, "a": 4}]))
    [1, 2, 4, 3]
    """
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in flatten(tree[key])]
    if isinstance(tree, (tuple, list)):
        return [leaf for branch in tree for leaf in flatten(branch)]
    return [tree]


def rebuild(like: Any, leaves: Iterator[Any]) -> Any:
    """A tree of the shape of `like` with these leaves.

    >>> rebuild((1, [2, {"b": 3}]), iter("xyz"))
    ('x', ['y', {'b': 'z'}])
    """
    if isinstance(like, dict):
        built = {key: rebuild(like[key], leaves) for key in sorted(like)}
        return type(like)((key, built[key]) for key in like)
    if isinstance(like, tuple) and hasattr(like, "_fields"):
        return type(like)(*(rebuild(branch, leaves) for branch in like))
    if isinstance(like, (tuple, list)):
        return type(like)(rebuild(branch, leaves) for branch in like)
    return next(leaves)


def change(function: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with `function` of each leaf.

    >>> change(str, {"a": (1, 2)})
    {'a': ('1', '2')}
    """
    return rebuild(tree, iter([function(leaf) for leaf in flatten(tree)]))


def shape(tree: Any) -> Any:
    """What two trees have to agree in: kinds, lengths and keys.

    >>> shape({"b": 1, "a": (2, 3)}) == shape({"a": (4, 5), "b": 6}), shape({"a": 1}) == shape({"b": 1})
    (True, False)
    """
    if isinstance(tree, dict):
        return {key: shape(branch) for key, branch in tree.items()}
    return [shape(branch) for branch in tree] if isinstance(tree, (tuple, list)) else None
