"""The estate as a drawing: sites, and flows and links as arrows, with their states (SVG)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from aqueduct.status.markup import css_class, safe
from aqueduct.status.model import EstateStatus, ObjectKind, ObjectState, ObjectStatus

WIDTH, HEIGHT, COLUMN, ROW, MARGIN = 180, 56, 330, 96, 16  # pixels
CARRYING = (ObjectKind.FLOW, ObjectKind.LINK)


@dataclass(frozen=True)
class Spot:
    """The upper left corner of a site's box."""

    x: int
    y: int


def drawing(status: EstateStatus) -> str:
    """Return an SVG element. States are told by line styles and words, too, not by colours alone."""
    arrows = [each for each in status.objects if each.declared.kind in CARRYING]
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
    for each in arrows:
        pair = each.declared.source, each.declared.site
        between[pair] = between.get(pair, -1) + 1
        parts.append(_arrow(each, spots[pair[0]], spots[pair[1]], 14 * between[pair]))
    parts += [_box(site, state, spots[site]) for site, state in states.items()]
    return "\n".join([*parts, "</svg>"])


def _site_states(status: EstateStatus, arrows: Iterable[ObjectStatus]) -> dict[str, ObjectState]:
    """Return the worst state of each site. A source outside of the estate is not asked."""
    states: dict[str, ObjectState] = {}
    for each in status.objects:
        site = each.declared.site
        if site:
            states[site] = min(states.get(site, each.state), each.state, key=lambda state: state.rank)
    for each in arrows:
        states.setdefault(each.declared.source, ObjectState.NOT_ASKED)
    return states


def _spots(states: Mapping[str, ObjectState], arrows: Iterable[ObjectStatus]) -> dict[str, Spot]:
    """Put each site to the right of the sites that it receives from."""
    column = dict.fromkeys(states, 0)
    pairs = [(each.declared.source, each.declared.site) for each in arrows]
    for _ in states:  # a circle of flows ends here, too
        for source, target in pairs:
            if source != target:
                column[target] = max(column[target], min(column[source] + 1, len(states) - 1))
    rows: dict[int, int] = {}
    spots = {}
    used = {number: place for place, number in enumerate(sorted(set(column.values())))}
    for site in sorted(states, key=lambda name: (column[name], name)):
        place = used[column[site]]
        rows[place] = rows.get(place, -1) + 1
        spots[site] = Spot(MARGIN + place * COLUMN, MARGIN + rows[place] * ROW)
    return spots


def _box(site: str, state: ObjectState, at: Spot) -> str:
    return (
        f'<g class="site {css_class(state)}"><title>{safe(site)}: {state.value}</title>'
        f'<rect x="{at.x}" y="{at.y}" width="{WIDTH}" height="{HEIGHT}" rx="8"/>'
        f'<text x="{at.x + 12}" y="{at.y + 24}" class="name">{safe(site[:20])}</text>'
        f'<text x="{at.x + 12}" y="{at.y + 43}">{state.value}</text></g>'
    )


def _arrow(each: ObjectStatus, source: Spot, target: Spot, offset: int) -> str:
    start, end = (
        (source.x + WIDTH, source.y + HEIGHT // 2 + offset),
        (target.x, target.y + HEIGHT // 2 + offset),
    )
    if source.x >= target.x:  # backwards, or within a column
        start, end = (source.x, start[1]), (target.x + WIDTH, end[1])
    middle = (start[0] + end[0]) // 2
    kind = each.declared.kind.label
    return (
        f'<g class="arrow {kind} {css_class(each.state)}"><title>'
        f"{safe(each.declared)}: {each.state.value}</title>"
        f'<path d="M{start[0]} {start[1]}C{middle} {start[1]} {middle} {end[1]} {end[0]} {end[1]}" '
        'marker-end="url(#head)"/></g>'
    )


def _description(states: Mapping[str, ObjectState], arrows: Iterable[ObjectStatus]) -> str:
    return " ".join(_sentences(states, arrows))


def _sentences(states: Mapping[str, ObjectState], arrows: Iterable[ObjectStatus]) -> Iterator[str]:
    for site, state in states.items():
        yield f"Site {site}: {state.value}."
    for each in arrows:
        yield f"{each.declared.kind.label.capitalize()} {each.declared.name}: {each.state.value}."
