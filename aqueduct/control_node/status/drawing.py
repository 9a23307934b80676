"""The estate as a drawing: sites, and flows and links as arrows, with their states (SVG)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from aqueduct.control_node.status.markup import css_class, safe
from aqueduct.control_node.status.model import EstateStatus, ObjectKind, ObjectState, ObjectStatus

WIDTH, HEIGHT, COLUMN, ROW, MARGIN = 180, 56, 330, 96, 16  # pixels
CARRYING = (ObjectKind.FLOW, ObjectKind.LINK)


@dataclass(frozen=True)
class Spot:
    """The upper left corner of a site's box."""

    x: int
    y: int


def drawing(status: EstateStatus) -> str:
    """Return an SVG element. States are told by line styles and words, too, not by colours alone."""
    arrows = [arrow for arrow in status.objects if arrow.declared.kind in CARRYING]
    states = _site_states(status, arrows)
    spots = _spots(states, arrows)
    width = max((spot.x for spot in spots.values()), default=0) + WIDTH + MARGIN
    height = max((spot.y for spot in spots.values()), default=0) + HEIGHT + MARGIN
    parts = [
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-labelledby="drawing-title drawing-text" '
        f'style="max-width:{width}px">',
        '<title id="drawing-title">The estate</title>',
        f'<desc id="drawing-text">{safe(_description(states, arrows))}</desc>',
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" fill="context-stroke"/></marker></defs>',
    ]
    between: dict[tuple[str, str], int] = {}
    for arrow in arrows:
        pair = arrow.declared.source, arrow.declared.site
        between[pair] = between.get(pair, -1) + 1
        parts.append(_arrow(arrow, spots[pair[0]], spots[pair[1]], 14 * between[pair]))
    parts += [_box(site, state, spots[site]) for site, state in states.items()]
    return "\n".join([*parts, "</svg>"])


def _site_states(status: EstateStatus, arrows: Iterable[ObjectStatus]) -> dict[str, ObjectState]:
    """Return the worst state of each site. A source outside of the estate is not asked."""
    states: dict[str, ObjectState] = {}
    for object_status in status.objects:
        site = object_status.declared.site
        if site:
            states[site] = min(
                states.get(site, object_status.state), object_status.state, key=lambda state: state.rank
            )
    for object_status in arrows:
        states.setdefault(object_status.declared.source, ObjectState.NOT_ASKED)
    return states


def _spots(states: Mapping[str, ObjectState], arrows: Iterable[ObjectStatus]) -> dict[str, Spot]:
    """Put each site to the right of the sites that it receives from."""
    column = dict.fromkeys(states, 0)
    pairs = [(arrow.declared.source, arrow.declared.site) for arrow in arrows]
    for _ in states:  # a circle of flows ends here, too
        for source, target in pairs:
            if source != target:
                column[target] = max(column[target], min(column[source] + 1, len(states) - 1))
    rows: dict[int, int] = {}
    spots = {}
    used = {number: rank for rank, number in enumerate(sorted(set(column.values())))}
    for site in sorted(states, key=lambda name: (column[name], name)):
        rank = used[column[site]]
        rows[rank] = rows.get(rank, -1) + 1
        spots[site] = Spot(MARGIN + rank * COLUMN, MARGIN + rows[rank] * ROW)
    return spots


def _box(site: str, state: ObjectState, spot: Spot) -> str:
    return (
        f'<g class="site {css_class(state)}"><title>{safe(site)}: {state.value}</title>'
        f'<rect x="{spot.x}" y="{spot.y}" width="{WIDTH}" height="{HEIGHT}" rx="8"/>'
        f'<text x="{spot.x + 12}" y="{spot.y + 24}" class="name">{safe(site[:20])}</text>'
        f'<text x="{spot.x + 12}" y="{spot.y + 43}">{state.value}</text></g>'
    )


def _arrow(arrow: ObjectStatus, source: Spot, target: Spot, offset: int) -> str:
    start, end = (
        (source.x + WIDTH, source.y + HEIGHT // 2 + offset),
        (target.x, target.y + HEIGHT // 2 + offset),
    )
    if source.x >= target.x:  # backwards, or within a column
        start, end = (source.x, start[1]), (target.x + WIDTH, end[1])
    middle = (start[0] + end[0]) // 2
    kind = arrow.declared.kind.label
    return (
        f'<g class="arrow {kind} {css_class(arrow.state)}"><title>'
        f"{safe(arrow.declared)}: {arrow.state.value}</title>"
        f'<path d="M{start[0]} {start[1]}C{middle} {start[1]} {middle} {end[1]} {end[0]} {end[1]}" '
        'marker-end="url(#head)"/></g>'
    )


def _description(states: Mapping[str, ObjectState], arrows: Iterable[ObjectStatus]) -> str:
    return " ".join(_sentences(states, arrows))


def _sentences(states: Mapping[str, ObjectState], arrows: Iterable[ObjectStatus]) -> Iterator[str]:
    for site, state in states.items():
        yield f"Site {site}: {state.value}."
    for arrow in arrows:
        yield f"{arrow.declared.kind.label.capitalize()} {arrow.declared.name}: {arrow.state.value}."
