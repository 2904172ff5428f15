"""The style sheet of the report and the dashboard: light and dark colours, and a printable layout."""

_SHADES = (*(f"h{number}" for number in range(10)), "over", "one", "two")

CSS = """
:root {
  color-scheme: light dark;
  --paper: #fbfbf9; --card: #ffffff; --ink: #1c2230; --soft: #667085; --line: #e3e6ec; --faint: #f1f3f6;
  --one: #2f6fde; --one-soft: #c9dbfa; --two: #c2571a; --two-soft: #f6d3bd; --bad: #b42318; --good: #1a7f4b;
  --h0: #eef2f7; --h1: #d5e4f7; --h2: #b3cff2; --h3: #8ab3ea; --h4: #5f93dc; --h5: #3f74c4; --h6: #2c57a0;
  --h7: #8a4a9e; --h8: #b5336f; --h9: #c21f3a; --over: #5b0a16; --none: transparent;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #0f131a; --card: #171d27; --ink: #e7eaf0; --soft: #98a2b3; --line: #2a3240; --faint: #1e2530;
    --one: #6ea3ff; --one-soft: #26436f; --two: #f59a62; --two-soft: #5a3318; --bad: #ff8a80; --good: #5fd49a;
    --h0: #1d2532; --h1: #20334d; --h2: #23446f; --h3: #285893; --h4: #3270b8; --h5: #4a8ad4; --h6: #74a9ea;
    --h7: #b48ad0; --h8: #e07aa8; --h9: #f2667f; --over: #ffd0d6;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
main, header, footer { max-width: 1120px; margin: 0 auto; padding: 0 24px; }
header { padding-top: 40px; }
h1 { font-size: 28px; line-height: 1.2; margin: 0 0 6px; letter-spacing: -.015em; }
h2 { font-size: 18px; margin: 0 0 4px; letter-spacing: -.005em; }
h3 { font-size: 14px; margin: 18px 0 6px; color: var(--soft); font-weight: 600; }
p { margin: 0 0 12px; } .soft { color: var(--soft); }
.card {
  background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 22px 24px; margin: 20px 0;
}
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(120px, 1fr)); gap: 12px; margin: 22px 0; }
.figure { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 14px 16px; }
.figure b { display: block; font-size: 26px; line-height: 1.15; font-variant-numeric: tabular-nums; }
.figure span { color: var(--soft); font-size: 13px; }
.figure.bad b { color: var(--bad); } .figure.good b { color: var(--good); }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(320px, 1fr)); gap: 24px; }
svg { display: block; width: 100%; height: auto; }
svg text { font: 11px ui-sans-serif, system-ui, sans-serif; fill: var(--soft); }
svg text.strong { fill: var(--ink); font-weight: 600; } svg text.on { fill: var(--ink); }
svg text.high { fill: var(--paper); font-weight: 600; }
.scroll { overflow-x: auto; max-height: 420px; overflow-y: auto; border: 1px solid var(--line); border-radius: 8px; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th, td { text-align: left; padding: 7px 12px; border-bottom: 1px solid var(--line); vertical-align: top; }
th { background: var(--faint); position: sticky; top: 0; font-weight: 600; white-space: nowrap; }
tr:last-child td { border-bottom: 0; }
td { font-variant-numeric: tabular-nums; } td:not(:last-child) { white-space: nowrap; }
td:last-child { overflow-wrap: anywhere; }
code { overflow-wrap: anywhere; }
code, .mono { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: 12.5px; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 14px; font-size: 12px; color: var(--soft); margin-top: 10px; }
.legend i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 5px;
  vertical-align: -1px; border: 1px solid var(--line); }
.notice { border-left: 4px solid var(--bad); padding: 10px 16px; background: var(--card); border-radius: 6px; }
details { margin-top: 10px; } summary { cursor: pointer; color: var(--one); }
footer { color: var(--soft); font-size: 13px; padding-bottom: 40px; }
@media print { .scroll { max-height: none; overflow: visible; } .card { break-inside: avoid; } }
"""
CSS += """
.is-before, .is-running { background: var(--one-soft); } .is-running { border-color: var(--one); }
.is-pending { background: var(--two-soft); border-color: var(--two); }
"""
CSS += "".join(
    f".is-{name} {{ background: var(--{name}); }} svg .{name} {{ fill: var(--{name}); }}\n" for name in _SHADES
)
