"""States made of several arrays: tuples, lists and dictionaries, nested."""

from collections.abc import Callable, Iterator
from typing import Any


def flatten(tree: Any) -> list[Any]:
    """The leaves in order; of a dictionary in the order of its keys' insertion.

    >>> flatten((1, [2, {"b": 3, "a": 4}]))
    [1, 2, 3, 4]
    """
    if isinstance(tree, dict):
        return [leaf for branch in tree.values() for leaf in flatten(branch)]
    if isinstance(tree, (tuple, list)):
        return [leaf for branch in tree for leaf in flatten(branch)]
    return [tree]


def rebuild(like: Any, leaves: Iterator[Any]) -> Any:
    """A tree of the shape of `like` with these leaves.

    >>> rebuild((1, [2, {"b": 3}]), iter("xyz"))
    ('x', ['y', {'b': 'z'}])
    """
    if isinstance(like, dict):
        return type(like)((key, rebuild(branch, leaves)) for key, branch in like.items())
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
