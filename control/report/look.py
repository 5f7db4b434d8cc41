"""How the page looks: on a light and a dark screen, and on paper."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --back: rgb(255 255 255); --card: rgb(245 247 249); --ink: rgb(27 31 36);
  --soft: rgb(87 96 106); --rule: rgb(213 219 225);
  --s0: rgb(47 109 179); --s1: rgb(200 80 30); --s2: rgb(122 79 201); }
@media (prefers-color-scheme: dark) { :root { --back: rgb(20 23 27); --card: rgb(30 35 41);
  --ink: rgb(230 232 235); --soft: rgb(154 164 174);
  --rule: rgb(52 59 67); --s0: rgb(106 169 240); --s1: rgb(240 138 93); --s2: rgb(183 156 245); } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 24px; max-width: 1180px; background: var(--back); color: var(--ink);
  font: 15px/1.45 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { margin: 0; font-size: 26px; } h2 { margin: 0 0 10px; font-size: 16px; } p { margin: 4px 0; }
.soft, figcaption, summary { color: var(--soft); font-size: 13px; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(230px, 1fr)); gap: 14px; margin: 20px 0; }
.card { background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: 14px 16px; }
.card h2 { color: var(--soft); font-weight: 500; font-size: 14px; margin: 0; }
.card strong { display: block; font-size: 24px; line-height: 1.3; overflow-wrap: anywhere; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); gap: 14px; }
section { border: 1px solid var(--rule); border-radius: 8px; padding: 14px 16px; min-width: 0; }
section.whole { margin: 14px 0; }
svg { display: block; width: 100%; height: auto; } svg text { fill: var(--ink); font-size: 12px; }
.end { text-anchor: end; } .middle { text-anchor: middle; } .grid { stroke: var(--rule); stroke-width: 1; }
.s0 { fill: var(--s0); } .s1 { fill: var(--s1); } .s2 { fill: var(--s2); } .light { opacity: 0.4; }
.line { fill: none; stroke-width: 2; stroke-linecap: round; stroke-linejoin: round; }
.line.s0 { stroke: var(--s0); } .line.s1 { stroke: var(--s1); } .line.s2 { stroke: var(--s2); }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 13px; width: 100%; }
th, td { padding: 4px 10px 4px 0; border-bottom: 1px solid var(--rule); text-align: left; overflow-wrap: break-word; }
th { color: var(--soft); font-weight: 500; } .number { font-variant-numeric: tabular-nums; }
details { margin-top: 8px; } footer { margin-top: 20px; }
@media print { :root { --back: rgb(255 255 255); --card: rgb(255 255 255); --ink: rgb(0 0 0);
  --soft: rgb(68 68 68); --rule: rgb(187 187 187);
  --s0: rgb(47 109 179); --s1: rgb(200 80 30);
  --s2: rgb(122 79 201); } body { padding: 0; max-width: none; font-size: 11px; }
  section, .card { break-inside: avoid; } th, td { overflow-wrap: anywhere; } details { display: none; }
  svg rect, svg path { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
"""
