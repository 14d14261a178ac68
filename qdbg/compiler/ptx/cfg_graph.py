"""Graph algorithms for control flow, none of them recursive.

Nodes are small integers; a graph is a sequence of successor tuples.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

Graph = Sequence[tuple[int, ...]]


def reachable(graph: Graph, roots: Iterable[int], within: Collection[int]) -> set[int]:
    """The nodes of `within` that can be reached from `roots`, the roots included."""
    found = set(roots)
    stack = list(found)
    while stack:
        for node in graph[stack.pop()]:
            if node in within and node not in found:
                found.add(node)
                stack.append(node)
    return found


def postorder(graph: Graph, root: int) -> list[int]:
    """The nodes reachable from `root`, each after those that a depth-first search enters from it."""
    order: list[int] = []
    seen = {root}
    stack = [(root, iter(graph[root]))]
    while stack:
        node, successors = stack[-1]
        for successor in successors:
            if successor not in seen:
                seen.add(successor)
                stack.append((successor, iter(graph[successor])))
                break
        else:
            order.append(node)
            stack.pop()
    return order


def immediate_dominators(graph: Graph, root: int) -> dict[int, int]:
    """The immediate dominator of every node reachable from `root`; the root is its own.

    Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001).
    """
    order = postorder(graph, root)
    number = {node: place for place, node in enumerate(order)}
    predecessors: dict[int, list[int]] = {node: [] for node in order}
    for node in order:
        for successor in graph[node]:
            predecessors[successor].append(node)
    idom = {root: root}

    def intersect(a: int, b: int) -> int:
        while a != b:
            if number[a] < number[b]:
                a = idom[a]
            else:
                b = idom[b]
        return a

    changed = True
    while changed:
        changed = False
        for node in reversed(order[:-1]):
            known = [one for one in predecessors[node] if one in idom]
            best = known[0]
            for other in known[1:]:
                best = intersect(best, other)
            if idom.get(node) != best:
                idom[node] = best
                changed = True
    return idom


def components(graph: Graph, nodes: Collection[int], root: int, closed: int | None) -> list[list[int]]:
    """The strongly connected components of `nodes` that `root` reaches, in topological order.

    Edges into `closed` are left out.  Where the order is free, lower numbers come first.
    Tarjan, "Depth-First Search and Linear Graph Algorithms" (1972).
    """

    def edges(node: int) -> list[int]:
        return sorted((one for one in graph[node] if one in nodes and one != closed), reverse=True)

    found: list[list[int]] = []
    number: dict[int, int] = {root: 0}
    lowest = {root: 0}
    open_nodes = [root]
    is_open = {root}
    stack = [(root, iter(edges(root)))]
    while stack:
        node, successors = stack[-1]
        for successor in successors:
            if successor not in number:
                number[successor] = lowest[successor] = len(number)
                open_nodes.append(successor)
                is_open.add(successor)
                stack.append((successor, iter(edges(successor))))
                break
            if successor in is_open:
                lowest[node] = min(lowest[node], number[successor])
        else:
            stack.pop()
            if stack:
                parent = stack[-1][0]
                lowest[parent] = min(lowest[parent], lowest[node])
            if lowest[node] == number[node]:
                component: list[int] = []
                while not component or component[-1] != node:
                    component.append(open_nodes.pop())
                is_open.difference_update(component)
                found.append(component)
    return found[::-1]


def loop_order(graph: Graph, predecessors: Graph, root: int) -> list[int]:
    """The nodes reachable from `root`, forward edges forwards and every loop's nodes contiguous.

    A component with a cycle is a loop; its header comes first, and without the edges into the header
    the rest falls into components again (Bourdoncle's weak topological order, 1993).
    """
    order: list[int] = []
    inside = reachable(graph, [root], range(len(graph)))
    stack: list[tuple[Collection[int], int, int | None]] = [(inside, root, None)]
    while stack:
        nodes, header, closed = stack.pop()
        if len(nodes) == 1:
            order.append(header)
            continue
        for component in reversed(components(graph, nodes, header, closed)):
            members = set(component)
            entries = [
                one
                for one in component
                if one == header or any(p in inside and p not in members for p in predecessors[one])
            ]
            entry = header if header in members else min(entries)
            stack.append((members, entry, entry))
    return order


def immediate_postdominators(
    graph: Graph, predecessors: Graph, leaving: Mapping[int, int]
) -> dict[int, int | None]:
    """The immediate post-dominator of every node; None is the virtual exit.

    `leaving` ranks the nodes that can leave: those of the lowest rank count first, and paths that can only
    leave by a higher rank (or never) are not seen by the nodes that can leave otherwise.  So a branch
    around a `trap` or an endless loop reconverges behind it.
    """
    result: dict[int, int | None] = {}
    rest = set(range(len(graph)))
    exit_node = len(graph)
    while rest:
        rank = min((leaving[node] for node in rest if node in leaving), default=None)
        exits = [node for node in rest if node in leaving and leaving[node] == rank] or [max(rest)]
        region = reachable(predecessors, exits, rest)
        backwards: list[tuple[int, ...]] = [
            tuple(one for one in predecessors[node] if one in region) if node in region else ()
            for node in range(len(graph))
        ]
        idom = immediate_dominators([*backwards, tuple(exits)], exit_node)
        result |= {node: None if idom[node] == exit_node else idom[node] for node in region}
        rest -= region
    return result
