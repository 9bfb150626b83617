"""Walks through a graph: nodes with the nodes that follow them, in an order that never varies."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["components", "reaching", "walk"]

Node = TypeVar("Node")


def components(steps: Mapping[Node, Sequence[Node]]) -> list[list[Node]]:
    """The sets of nodes that can all reach each other; one before those that it leads to.

    A node alone is one where it leads to itself.
    """
    behind: dict[Node, list[Node]] = {node: [] for node in steps}
    for node, ahead in steps.items():
        for to in ahead:
            behind[to].append(node)
    found: list[list[Node]] = []
    seen: set[Node] = set()
    # Backwards from the last left: what is reached and new is one set.
    for start in reversed(_in_order_of_leaving(steps)):
        if start not in seen:
            loop = [start]
            seen.add(start)
            for node in loop:  # grows as it goes
                new = list(dict.fromkeys(one for one in behind[node] if one not in seen))
                seen.update(new)
                loop += new
            if len(loop) > 1 or start in steps[start]:
                found.append(loop)
    return found


def _in_order_of_leaving(steps: Mapping[Node, Sequence[Node]]) -> list[Node]:
    """The nodes as a walk that goes deep first is done with them."""
    order: list[Node] = []
    seen: set[Node] = set()
    for start in steps:
        path = [] if start in seen else [(start, iter(steps[start]))]
        seen.add(start)
        while path:
            node, ahead = path[-1]
            for to in ahead:
                if to not in seen:
                    seen.add(to)
                    path.append((to, iter(steps[to])))
                    break
            else:
                order.append(node)
                path.pop()
    return order


def walk(starts: Iterable[Node], goal: Node, steps: Mapping[Node, Sequence[Node]]) -> list[Node]:
    """The shortest walk from one of the starts to the goal, both included; [] where none leads."""
    came: dict[Node, Node | None] = dict.fromkeys(starts)
    order = list(came)
    for node in order:
        if node == goal:
            break
        for ahead in steps[node]:
            if ahead not in came:
                came[ahead] = node
                order.append(ahead)
    found: list[Node] = []
    at = goal if goal in came else None
    while at is not None:
        found.append(at)
        at = came[at]
    return found[::-1]


def reaching(steps: Mapping[Node, Sequence[Node]], goals: Iterable[Node]) -> set[Node]:
    """The nodes from which one of the goals can be reached."""
    behind: dict[Node, list[Node]] = {}
    for node, ahead in steps.items():
        for one in ahead:
            behind.setdefault(one, []).append(node)
    order = list(goals)
    found = set(order)
    for node in order:
        for one in behind.get(node, ()):
            if one not in found:
                found.add(one)
                order.append(one)
    return found
