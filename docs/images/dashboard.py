#!/usr/bin/env python3
"""Draws the Grafana dashboard of a controller's chart as SVG, with the answers of a Prometheus that scraped the demo.

Shows the time in which the controller was up. By hand, after `cargo xtask demo` has built everything once:

    echo '{"scrape_configs": [{"job_name": "ttl-controller", "scrape_interval": "500ms", "scrape_timeout": "500ms",
           "file_sd_configs": [{"files": ["targets.yml"]}]}]}' >prometheus.yml
    prometheus --config.file=prometheus.yml --storage.tsdb.path=data &
    cargo xtask demo --plain --scene ttl-controller |
      sed --unbuffered --quiet 's|.*its metrics: http://\\(.*\\)/metrics.*|[{"targets": ["\\1"]}]|w targets.yml'
    docs/images/dashboard.py ttl-controller http://localhost:9090 >docs/images/dashboard.svg
"""
import json, math, pathlib, re, sys, time
from html import escape
from urllib.parse import urlencode
from urllib.request import urlopen

STEP = 0.5  # seconds between two scrapes
WIDTH, ROW, GAP, BAR = 1000, 23, 8, 40
TEXT, PALE = "#24292e", "#6e747b"
COLOURS = ["#56a64b", "#e0b400", "#3274d9", "#ff780a", "#e02f44", "#8f3bb8", "#37872d"]
UNITS = {
    "short": [(1e6, " Mil"), (1e3, " K"), (1, "")],
    "ops": [(1e3, "K ops/s"), (1, " ops/s")],
    "reqps": [(1e3, "K req/s"), (1, " req/s")],
    "s": [(3600, " hours"), (60, " mins"), (1, " s"), (1e-3, " ms"), (1e-6, " µs")],
    "bytes": [(2**30, " GiB"), (2**20, " MiB"), (2**10, " KiB"), (1, " B")],
}


def ask(url, query, start, end):
    """Labels and points of each series; a value that is no number is a gap."""
    args = urlencode({"query": query, "start": start, "end": end, "step": STEP})
    series = json.load(urlopen(f"{url}/api/v1/query_range?{args}"))["data"]["result"]
    return [(one["metric"], [(at, float(v)) for at, v in one["values"] if math.isfinite(float(v))]) for one in series]


def text(x, y, content, size=11, fill=TEXT, more=""):
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" fill="{fill}" {more}>{escape(content)}</text>'


def scale(units, value):
    return next((unit for unit in units if (value or 1) * (1 + 1e-9) >= unit[0]), units[-1])


def round_above(value):
    magnitude = 10 ** math.floor(math.log10(value)) if value > 0 else 1
    return next(step * magnitude for step in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if step * magnitude >= value)


def panel(model, series, start, end):
    grid, defaults, column = model["gridPos"], model["fieldConfig"]["defaults"], (WIDTH - GAP) / 24
    left, top = GAP + grid["x"] * column, BAR + grid["y"] * ROW
    width, height = grid["w"] * column - GAP, grid["h"] * ROW - GAP
    out = [f'<rect x="{left:.0f}" y="{top}" width="{width:.0f}" height="{height}" fill="white" stroke="#dfe1e4"/>']
    out.append(text(left + 10, top + 19, model["title"], 12, more='font-weight="bold"'))
    largest = max((value for _, points, _ in series for _, value in points), default=None)
    if largest is None:
        empty = defaults.get("noValue", "No data")
        return out + [text(left + width / 2, top + height / 2, empty, 13, PALE, 'text-anchor="middle"')]
    # The legend, in two lines at most.
    x, line, legend = 0, 0, []
    for name, _, colour in series:
        long = 6 * len(name) + 16
        x, line = (0, line + 1) if x and x + long > width - 20 else (x, line)
        legend.append((left + 10 + x, line, name, colour))
        x += long + 12
    bottom = top + height - 16 * min(line + 1, 2) - 5
    for x, line, name, colour in (entry for entry in legend if entry[1] < 2):
        y = bottom + 16 * line + 8
        out.append(f'<rect x="{x:.0f}" y="{y - 1}" width="12" height="3" fill="{colour}"/>' + text(x + 16, y + 4, name))
    units = UNITS[defaults["unit"]]
    one, _ = scale(units, round_above(largest))
    high, steps = round_above(largest / one) * one, 4
    if defaults.get("decimals") == 0 and high < 6:
        high = steps = math.ceil(high)
    x0, y0, x1, y1 = left + 66, bottom - 24, left + width - 12, top + 36
    place = lambda at, value: (x0 + (x1 - x0) * (at - start) / (end - start), y0 + (y1 - y0) * value / high)
    for step in range(steps + 1):
        value = high * step / steps
        y, (of, suffix) = place(start, value)[1], scale(units, value)
        out.append(f'<path d="M{x0:.1f} {y:.1f}H{x1:.1f}" stroke="#e9eaec"/>')
        out.append(text(x0 - 6, y + 4, f"{value / of:.4g}{suffix}", 10.5, PALE, 'text-anchor="end"'))
    for step in range(5):
        x, (minutes, seconds) = x0 + (x1 - x0) * step / 4, divmod((end - start) * step / 4, 60)
        out.append(text(x, y0 + 15, f"{minutes:.0f}:{seconds:02.0f}", 10.5, PALE, 'text-anchor="middle"'))
    for _, points, colour in series:
        # After a gap the line begins again, with a point: a line of no length, which has round ends.
        path, before = "", -math.inf
        for at, value in points:
            form = "L{:.1f} {:.1f}" if at - before < 1.5 * STEP else "M{:.1f} {:.1f}h0"
            path, before = path + form.format(*place(at, value)), at
        out.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-linecap="round"/>')
    return out


def main(controller, url):
    charts = pathlib.Path(__file__).resolve().parents[2] / "charts"
    dashboard = json.loads((charts / controller / "files/dashboard.json").read_text())
    now = time.time()
    up = [at for _, points in ask(url, f'up{{job="{controller}"}} == 1', now - 600, now) for at, _ in points]
    start, end = min(up), max(up)
    out = [text(10, 25, dashboard["title"], 16, more='font-weight="bold"')]
    out.append(text(WIDTH - 10, 25, f"Last {end - start:.0f} seconds", more='text-anchor="end"'))
    for model in dashboard["panels"]:
        series = []
        for target in model["targets"]:
            query = target["expr"].replace("$__rate_interval", f"{4 * STEP:.0f}s")
            for variable in dashboard["templating"]["list"]:
                query = query.replace("$" + variable["name"], variable.get("allValue", ""))
            for labels, points in ask(url, query, start, end):
                name = re.sub(r"{{(.*?)}}", lambda label: labels.get(label[1].strip(), ""), target["legendFormat"])
                series.append((name, points, COLOURS[len(series) % len(COLOURS)]))
        out += panel(model, series, start, end)
    height = BAR + max(at["y"] + at["h"] for at in (model["gridPos"] for model in dashboard["panels"])) * ROW + GAP
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">')
    print(f'<rect width="{WIDTH}" height="{height}" fill="#f4f5f5"/>', *out, "</svg>", sep="\n")


main(*sys.argv[1:])
