"""Style and script of the page. It has no other file, and loads none."""

STYLE = """
:root { color-scheme: light dark; --back: #ffffff; --text: #1b1f24; --faint: #57606a; --line: #8c959f;
  --panel: #f6f8fa; --well: #116329; --needs-action: #a40e26; --unknown: #7d4e00; --not-asked: #57606a;
  --focus: #0550ae; }
@media (prefers-color-scheme: dark) {
  :root { --back: #0d1117; --text: #e6edf3; --faint: #9da7b3; --line: #6e7681; --panel: #161b22;
    --well: #56d364; --needs-action: #ff7b72; --unknown: #e3b341; --not-asked: #9da7b3; --focus: #79c0ff; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 1rem/1.5 system-ui, sans-serif; }
header, main { max-width: 75rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }
p { margin: .25rem 0; } .faint { color: var(--faint); }
:focus-visible { outline: 3px solid var(--focus); outline-offset: 2px; }
.skip { position: absolute; left: -100rem; } .skip:focus { position: static; }
.counts { display: flex; flex-wrap: wrap; gap: .5rem; padding: 0; list-style: none; }
.counts li, .state { border: 1px solid currentColor; border-radius: 1rem; padding: .1rem .7rem;
  font-weight: 600; white-space: nowrap; }
.well { color: var(--well); } .needs-action { color: var(--needs-action); }
.unknown { color: var(--unknown); } .not-asked { color: var(--not-asked); }
nav { display: flex; flex-wrap: wrap; gap: 1rem; } nav a { color: var(--focus); }
.map { max-height: 24rem; overflow: auto; }
.findings { padding: 0; list-style: none; }
.findings li { background: var(--panel); border-left: 4px solid var(--line); margin: .5rem 0;
  padding: .5rem .75rem; overflow-wrap: anywhere; }
code { font: .9em/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }
label { font-weight: 600; }
input { font: inherit; color: inherit; background: var(--panel); border: 1px solid var(--line);
  border-radius: 4px; padding: .3rem .5rem; width: 100%; max-width: 30rem; display: block; }
table { border-collapse: collapse; width: 100%; } caption { text-align: left; color: var(--faint); }
th, td { text-align: left; vertical-align: top; padding: .35rem .75rem .35rem 0;
  border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
svg { width: 100%; height: auto; } svg text { fill: var(--text); font: 13px system-ui, sans-serif; }
svg .name { font-weight: 600; font-size: 15px; }
.site rect { fill: var(--panel); stroke: currentColor; stroke-width: 2; }
.arrow path { fill: none; stroke: currentColor; stroke-width: 2; }
.arrow.needs-action path { stroke-width: 5; } .arrow.unknown path { stroke-dasharray: 8 5; }
.arrow.not-asked path { stroke-dasharray: 2 5; } marker path { stroke: none; }
@media (max-width: 40rem) {
  thead { position: absolute; left: -100rem; }
  tr, td, th[scope=row] { display: block; border: 0; padding: .1rem 0; }
  tr { border-bottom: 1px solid var(--line); padding: .5rem 0; }
}
@media print {
  :root { --back: #fff; --text: #000; --panel: #fff; } .search, .skip, nav { display: none; }
  .map { max-height: none; }
  tr[hidden] { display: table-row; } .findings li, tr { break-inside: avoid; }
}
"""

SCRIPT = """
const search = document.getElementById("search"), shown = document.getElementById("shown");
const rows = [...document.querySelectorAll("tbody tr, .findings li")];
search.addEventListener("input", () => {
  const words = search.value.toLowerCase().split(/\\s+/).filter(Boolean);
  let number = 0;
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every(word => text.includes(word));
    number += !row.hidden;
  }
  shown.textContent = words.length ? `${number} of ${rows.length} rows match.` : "";
});
"""
