#!/usr/bin/env python3
"""Draws figures.svg from the table of docs/performance.md: memory and CPU of ours and of kube-controller-manager."""
import pathlib
import re

HERE = pathlib.Path(__file__).parent
ROWS = [
    ("disruption-controller, 50,000 pods, 1,000 budgets", "disruption-start: 50,000"),
    ("taint-eviction-controller, 50,000 pods at rest", "at-rest, 50,000 pods, 5,000"),
    ("resourceclaim-controller, 5,000 pods with a template", "resourceclaim-start"),
    ("ttl-after-finished-controller, 4,000 expired Jobs", "ttl-after-finished: 4,000"),
    ("ttl-controller, 5,000 nodes", "ttl: 5,000"),
]


def figures(text, start):
    """(MiB, seconds) of ours and theirs in the row that starts so, whose lines follow each other."""
    found = {}
    lines = text.split("\n")
    first = next(i for i, line in enumerate(lines) if line.startswith(f"| {start}"))
    for line in lines[first : first + 3]:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells[0] and line != lines[first]:
            break
        who, mib, cpu = cells[1], cells[5], cells[6]
        if mib:
            number = lambda cell: float(re.match(r"[\d,.]+", cell)[0].replace(",", ""))
            found["theirs" if who.startswith("kube-") else "ours"] = (number(mib), number(cpu))
    return found["ours"], found["theirs"]


def main():
    text = (HERE.parent / "performance.md").read_text()
    out, y = [], 44
    for title, start in ROWS:
        ours, theirs = figures(text, start)
        out.append(f'<text x="10" y="{y}">{title}</text>')
        for column, unit in ((0, "MiB"), (1, "s of CPU")):
            left = 10 + 380 * column
            for row, (value, colour) in enumerate(((ours[column], "#2f6db3"), (theirs[column], "#c9c9c9"))):
                width = max(1.5, 250 * value / theirs[column])
                top = y + 8 + 16 * row
                out.append(f'<rect x="{left}" y="{top}" width="{width:.1f}" height="12" fill="{colour}"/>')
                out.append(f'<text x="{left + width + 6:.1f}" y="{top + 11}">{value:g} {unit}</text>')
        y += 62
    head = '<text x="10" y="18" font-weight="bold">Peak memory and CPU of the row: <tspan fill="#2f6db3">ours</tspan>, and kube-controller-manager with the same loop alone (grey)</text>'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {y}" font-family="sans-serif" font-size="12"><rect width="760" height="{y}" fill="white"/>{head}{"".join(out)}</svg>\n'
    (HERE / "figures.svg").write_text(svg)


main()
