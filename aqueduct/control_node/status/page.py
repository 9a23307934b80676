"""The state of an estate as one HTML file, which loads nothing from a network."""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence

from aqueduct.common import timestamps
from aqueduct.control_node.status.drawing import drawing
from aqueduct.control_node.status.markup import css_class, safe
from aqueduct.control_node.status.model import SECTIONS, EstateStatus, ObjectState, ObjectStatus
from aqueduct.control_node.status.report import figure_text, findings, worst_first
from aqueduct.control_node.status.style import SCRIPT, STYLE


def page(status: EstateStatus) -> str:
    return "\n".join(_parts(status)) + "\n"


def _hash(text: str) -> str:
    """Return the source by which a browser accepts this script or style, and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _parts(status: EstateStatus) -> Iterator[str]:
    # The drawing's own width is the only style attribute.
    policy = (
        f"default-src 'none'; script-src {_hash(SCRIPT)}; style-src 'unsafe-inline'; base-uri 'none'; "
        "form-action 'none'"
    )
    yield "<!DOCTYPE html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>Aqueduct: {_verdict(status)}</title><style>{STYLE}</style></head>"
    yield '<body><header><a class="skip" href="#main">Skip to the content</a><h1>State of the estate</h1>'
    yield f"<p>As of {safe(timestamps.text(status.asked))}. "
    yield f"{status.answered} of {status.hosts} hosts answered.</p>"
    yield '<ul class="counts" aria-label="Objects by state">'
    for state, number in sorted(status.counts.items(), key=lambda state_count: state_count[0].rank):
        yield f'<li class="{css_class(state)}">{number:,} {state.value}</li>'
    ordered = worst_first(status)
    sections = {
        section: [
            object_status for object_status in ordered if object_status.declared.kind.section == section
        ]
        for section in SECTIONS
    }
    yield f"</ul>{_links(section for section, objects in sections.items() if objects)}</header>"
    yield '<main id="main" tabindex="-1"><section aria-labelledby="map"><h2 id="map">Data flows</h2>'
    # The drawing of many sites scrolls, so that the findings are on the first screen. Keys scroll it, too.
    yield '<div class="map" tabindex="0" role="group" aria-label="Drawing of the data flows">'
    yield f"{drawing(status)}</div></section>"
    yield '<div class="search"><label for="search">Search findings and tables</label>'
    yield '<input id="search" type="search" autocomplete="off">'
    yield '<p id="shown" class="faint" role="status"></p></div>'
    yield from _findings(status)
    for section, objects in sections.items():
        yield from _table(section, objects)
    yield f"</main><script>{SCRIPT}</script></body></html>"


def _links(sections: Iterable[str]) -> str:
    links = (f'<a href="#{section}">{section.capitalize()}</a>' for section in ("findings", *sections))
    return f'<nav aria-label="Sections">{" ".join(links)}</nav>'


def _verdict(status: EstateStatus) -> str:
    counts = status.counts
    if wanting := counts[ObjectState.NEEDS_ACTION]:
        return f"{wanting:,} need action"
    if unknown := counts[ObjectState.UNKNOWN]:
        return f"{unknown:,} unknown"
    return "all is well"


def _findings(status: EstateStatus) -> Iterator[str]:
    listed_findings = findings(status)
    yield f'<section aria-labelledby="findings"><h2 id="findings">Findings ({len(listed_findings):,})</h2>'
    yield '<ul class="findings">' if listed_findings else "<p>Nothing needs action.</p>"
    for object_status, finding in listed_findings:
        since = f" Since {safe(finding.since)}." if finding.since else ""
        yield (
            f"<li><p>{_state(finding.state)} <strong>{safe(object_status.declared)}</strong> "
            f"<code>{safe(finding.id)}</code></p><p>{safe(finding.sentence)}{since}</p>"
            f"<p><code>{safe(finding.fix)}</code></p></li>"
        )
    yield ("</ul>" if listed_findings else "") + "</section>"


def _table(section: str, objects: Sequence[ObjectStatus]) -> Iterator[str]:
    if not objects:
        return
    yield f'<section aria-labelledby="{section}"><h2 id="{section}">{section.capitalize()}</h2>'
    yield f"<table><caption>{len(objects):,} objects, worst first</caption><thead><tr>"
    yield "".join(f'<th scope="col">{name}</th>' for name in ("Object", "Site", "State", "Figures"))
    yield "</tr></thead><tbody>"
    for status in objects:
        figures = ", ".join(
            f"{safe(name.replace('_', ' '))}: {safe(figure_text(value))}"
            for name, value in status.figures.items()
        )
        yield (
            f'<tr><th scope="row">{safe(status.declared)}</th><td>{safe(status.declared.site)}</td>'
            f"<td>{_state(status.state)}</td><td>{figures}</td></tr>"
        )
    yield "</tbody></table></section>"


def _state(state: ObjectState) -> str:
    return f'<span class="state {css_class(state)}">{state.value}</span>'
