//! Draws a dashboard as SVG, in the look of Grafana's light theme.

use std::time::Duration;

use anyhow::Result;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::dashboard::{Dashboard, GridPos, Panel};
use super::prometheus::Series;
use super::recording::SCRAPE_EVERY;
use super::unit::Unit;

/// The vertical one of a panel; it begins with 0.
struct Axis {
    unit: Unit,
    /// What is 1 on it, in the unit.
    one: f64,
    /// In multiples of that.
    end: f64,
    labels: u8,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// All lengths are in pixels.
const WIDTH: i32 = 1000;
const COLUMNS: i32 = 24;
/// Of a unit of that grid; Grafana's own is 30, for a wider screen.
const ROW: i32 = 23;
/// Between panels, and around all.
const GAP: i32 = 8;
/// Of the bar with the title of the dashboard.
const BAR: i32 = 40;
/// Of a panel, as all that follow.
const PADDING: i32 = 10;
const TITLE: i32 = 30;
/// Below and beside the lines.
const TIMES: i32 = 20;
const VALUES: i32 = 66;
const LEGEND_LINE: i32 = 16;
/// More are not shown.
const LEGEND_LINES: i32 = 2;
/// About what a letter of a legend is wide.
const LETTER: i32 = 6;
/// A piece of the line, before its name.
const MARK: i32 = 12;
/// On a vertical axis, at most.
const LABELS: u8 = 6;
/// An em of plotters, in ems of SVG.
const EM: f64 = 1.24;

const CANVAS: RGBColor = RGBColor(0xf4, 0xf5, 0xf5);
const BORDER: RGBColor = RGBColor(0xdf, 0xe1, 0xe4);
const GRID: RGBColor = RGBColor(0xe9, 0xea, 0xec);
const TEXT: RGBColor = RGBColor(0x24, 0x29, 0x2e);
const PALE: RGBColor = RGBColor(0x6e, 0x74, 0x7b);
/// Of the lines, in turn.
const PALETTE: [RGBColor; 7] = [
    RGBColor(0x56, 0xa6, 0x4b),
    RGBColor(0xe0, 0xb4, 0x00),
    RGBColor(0x32, 0x74, 0xd9),
    RGBColor(0xff, 0x78, 0x0a),
    RGBColor(0xe0, 0x2f, 0x44),
    RGBColor(0x8f, 0x3b, 0xb8),
    RGBColor(0x37, 0x87, 0x2d),
];

/// The picture; `answers` are those of its panels, in their order, over a recording of this length.
pub(super) fn svg(dashboard: &Dashboard, answers: &[Vec<Series>], took: Duration) -> Result<String> {
    let bottom = |panel: &Panel| panel.grid_pos.y + panel.grid_pos.h;
    let rows = dashboard.panels.iter().map(bottom).max().unwrap_or_default();
    let size = (WIDTH.unsigned_abs(), (BAR + rows * ROW + GAP).unsigned_abs());
    let mut picture = String::new();
    {
        let root = SVGBackend::with_string(&mut picture, size).into_drawing_area();
        root.fill(&CANVAS)?;
        root.draw_text(&dashboard.title, &title(16.0), (GAP + 2, 12))?;
        let range = format!("Last {} seconds", took.as_secs());
        let right = text(11.0, PALE).pos(Pos::new(HPos::Right, VPos::Top));
        root.draw_text(&range, &right, (WIDTH - GAP - 2, 15))?;
        for (panel, series) in dashboard.panels.iter().zip(answers) {
            draw(panel, series, took, &place(&root, panel.grid_pos))?;
        }
        root.present()?;
    }
    Ok(picture)
}

fn place<'a>(root: &Area<'a>, at: GridPos) -> Area<'a> {
    let column = |column| GAP + column * (WIDTH - GAP) / COLUMNS;
    let (left, right) = (column(at.x), column(at.x + at.w) - GAP);
    let (top, height) = (BAR + at.y * ROW, at.h * ROW - GAP);
    root.clone().shrink((left, top), (right - left, height))
}

fn draw(panel: &Panel, series: &[Series], took: Duration, area: &Area<'_>) -> Result<()> {
    let (width, height) = size(area);
    let frame = [(0, 0), (width, height)];
    area.draw(&Rectangle::new(frame, WHITE.filled()))?;
    area.draw(&Rectangle::new(frame, BORDER))?;
    area.draw_text(&panel.title, &title(12.0), (PADDING, PADDING))?;

    let largest = series
        .iter()
        .flat_map(|series| &series.points)
        .map(|(_, value)| *value)
        .reduce(f64::max);
    let Some(largest) = largest else {
        let middle = text(13.0, PALE).pos(Pos::new(HPos::Center, VPos::Center));
        area.draw_text(panel.empty(), &middle, (width / 2, height / 2))?;
        return Ok(());
    };
    let names: Vec<_> = series.iter().map(|series| series.legend.as_str()).collect();
    let legend = legend(&names, width - 2 * PADDING);
    let lines = legend.last().map_or(1, |(_, (_, line))| line + 1);
    let top = height - lines * LEGEND_LINE - PADDING / 2;
    for (index, (x, line)) in legend {
        let (x, y) = (PADDING + x, top + line * LEGEND_LINE + LEGEND_LINE / 2);
        let mark = [(x, y - 1), (x + MARK, y + 2)];
        area.draw(&Rectangle::new(mark, color(index).filled()))?;
        let beside = text(11.0, TEXT).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw_text(names[index], &beside, (x + MARK + 4, y))?;
    }
    let plot = area
        .clone()
        .shrink((0, TITLE), (width - 2 * PADDING, top - TITLE - PADDING / 2));
    plot_lines(&Axis::of(panel, largest), series, took, &plot)
}

fn plot_lines(axis: &Axis, series: &[Series], took: Duration, area: &Area<'_>) -> Result<()> {
    let mut chart = ChartBuilder::on(area)
        .set_label_area_size(LabelAreaPosition::Bottom, TIMES)
        .set_label_area_size(LabelAreaPosition::Left, VALUES)
        .build_cartesian_2d(0.0..took.as_secs_f64(), 0.0..axis.end)?;
    chart
        .configure_mesh()
        .x_labels(5)
        .y_labels(axis.labels.into())
        .max_light_lines(1)
        .bold_line_style(GRID)
        .axis_style(GRID)
        .set_all_tick_mark_size(5)
        .label_style(text(10.5, PALE))
        .x_label_formatter(&|seconds| clock(*seconds))
        .y_label_formatter(&|value| axis.unit.label(value * axis.one))
        .draw()?;
    for (index, series) in series.iter().enumerate() {
        for run in runs(&series.points) {
            let run: Vec<_> = run.iter().map(|(at, value)| (*at, value / axis.one)).collect();
            match run[..] {
                [alone] => chart.draw_series([Circle::new(alone, 2, color(index).filled())])?,
                _ => chart.draw_series(LineSeries::new(run, color(index).stroke_width(1)))?,
            };
        }
    }
    Ok(())
}

/// Where the entries of a legend stand, by their numbers: distance from the left, and line. Those for which there is
/// no room are left out.
fn legend(names: &[&str], width: i32) -> Vec<(usize, (i32, i32))> {
    let mut places = Vec::new();
    let (mut x, mut line) = (0_i32, 0);
    for (index, name) in names.iter().enumerate() {
        let letters = i32::try_from(name.chars().count()).unwrap_or(i32::MAX);
        let long = letters.saturating_mul(LETTER).saturating_add(MARK + 4);
        if x > 0 && x.saturating_add(long) > width {
            (x, line) = (0, line + 1);
        }
        if line == LEGEND_LINES {
            break;
        }
        places.push((index, (x, line)));
        x = x.saturating_add(long + 2 * LETTER);
    }
    places
}

/// The parts of a line between gaps, where a value was not there for more than a scrape.
fn runs(points: &[(f64, f64)]) -> impl Iterator<Item = &[(f64, f64)]> {
    points.chunk_by(|(one, _), (next, _)| next - one < 1.5 * SCRAPE_EVERY.as_secs_f64())
}

impl Axis {
    fn of(panel: &Panel, largest: f64) -> Self {
        let unit = panel.unit();
        let (one, _) = unit.scale(round_above(largest));
        let mut end = round_above(largest / one);
        let mut labels = LABELS;
        if panel.is_whole() && end < f64::from(LABELS) {
            // One at each whole number, and none between them.
            end = end.ceil();
            labels = (2..LABELS)
                .find(|labels| f64::from(*labels) > end)
                .unwrap_or(LABELS);
        }
        Self {
            unit,
            one,
            end,
            labels,
        }
    }
}

/// A round number that is not below `largest`.
fn round_above(largest: f64) -> f64 {
    if largest <= 0.0 {
        return 1.0;
    }
    let magnitude = 10_f64.powf(largest.log10().floor());
    let steps = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let above = steps.into_iter().find(|step| step * magnitude >= largest);
    above.unwrap_or(10.0) * magnitude
}

/// Minutes and seconds since the start.
fn clock(seconds: f64) -> String {
    format!("{}:{:02.0}", (seconds / 60.0).floor(), seconds % 60.0)
}

fn color(index: usize) -> RGBColor {
    PALETTE[index % PALETTE.len()]
}

fn size(area: &Area<'_>) -> (i32, i32) {
    let (x, y) = area.get_pixel_range();
    (x.end - x.start, y.end - y.start)
}

fn text(size: f64, color: RGBColor) -> TextStyle<'static> {
    let mut text = TextStyle::from(("Inter, Helvetica, Arial, sans-serif", size * EM).into_font());
    text.color = color.to_backend_color();
    text
}

fn title(size: f64) -> TextStyle<'static> {
    let mut title = text(size, TEXT);
    title.font = title.font.style(FontStyle::Bold);
    title
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn dashboard() -> Dashboard {
        let panel = |title: &str, x: i32, defaults: Value| {
            json!({
                "title": title, "gridPos": {"x": x, "y": 0, "w": 8, "h": 8},
                "fieldConfig": {"defaults": defaults}, "targets": [],
            })
        };
        let panels = [
            panel("Time of a <sync>", 0, json!({"unit": "s"})),
            panel("Keys", 8, json!({"unit": "short", "decimals": 0})),
            panel(
                "Failed syncs",
                16,
                json!({"unit": "ops", "noValue": "None has failed"}),
            ),
        ];
        let templating = json!({"list": []});
        serde_json::from_value(json!({"title": "c-controller", "panels": panels, "templating": templating}))
            .unwrap()
    }

    fn series(legend: &str, points: &[(f64, f64)]) -> Series {
        Series {
            legend: legend.to_owned(),
            points: points.to_vec(),
        }
    }

    /// Each text of a picture, in the order of drawing.
    fn texts(picture: &str) -> Vec<&str> {
        let texts = picture.split("<text").skip(1);
        let inner = texts.map(|text| text.split_once('>').unwrap().1.split_once("</text>").unwrap().0);
        inner.map(str::trim).collect()
    }

    #[test]
    fn a_panel_shows_its_title_its_lines_and_their_names_or_that_there_is_no_data() {
        let points = [(0.0, 0.002), (0.5, 0.004), (1.0, 0.003), (3.0, 0.001)];
        let answers = [
            vec![series("nodes & pods", &points)],
            vec![series("none", &[])],
            vec![],
        ];
        let picture = svg(&dashboard(), &answers, Duration::from_secs(4)).unwrap();
        assert_eq!(
            texts(&picture),
            [
                "c-controller",
                "Last 4 seconds",
                "Time of a &lt;sync&gt;",
                "nodes &amp; pods",
                "0 s",
                "1 ms",
                "2 ms",
                "3 ms",
                "4 ms",
                "0:00",
                "0:01",
                "0:02",
                "0:03",
                "0:04",
                "Keys",
                "No data",
                "Failed syncs",
                "None has failed"
            ]
        );
        let counted = [vec![], vec![series("keys", &[(0.0, 1.0), (0.5, 1.5)])], vec![]];
        let picture_of_counts = svg(&dashboard(), &counted, Duration::from_secs(4)).unwrap();
        assert_eq!(texts(&picture_of_counts)[4..9], ["Keys", "keys", "0", "1", "2"]);
        // The point after the gap stands alone.
        assert_eq!(picture.matches("<circle").count(), 1);
        let green = "stroke=\"#56A64B\"";
        assert_eq!(picture.matches(green).count(), 1);
        assert_eq!(
            picture,
            svg(&dashboard(), &answers, Duration::from_secs(4)).unwrap()
        );
    }

    #[test]
    fn a_line_ends_where_scrapes_are_missing() {
        let points = [(0.0, 1.0), (0.5, 1.0), (1.5, 1.0), (2.0, 1.0)];
        let runs: Vec<_> = runs(&points).map(<[_]>::len).collect();
        assert_eq!(runs, [2, 2]);
    }

    #[test]
    fn a_legend_that_is_too_long_for_its_lines_ends_early() {
        assert_eq!(legend(&["ten lette_"; 2], 200), [(0, (0, 0)), (1, (88, 0))]);
        let places = legend(&["ten lette_"; 9], 180);
        assert_eq!(places, [(0, (0, 0)), (1, (88, 0)), (2, (0, 1)), (3, (88, 1))]);
        assert_eq!(legend(&["longer than the panel"], 20), [(0, (0, 0))]);
    }

    #[test]
    fn a_round_number_is_found_above_any() {
        for (largest, end) in [
            (0.0, 1.0),
            (1.0, 1.0),
            (1.1, 1.5),
            (520.0, 600.0),
            (0.000_9, 0.001),
            (9.5, 10.0),
        ] {
            assert!(
                (round_above(largest) - end).abs() < 1e-9,
                "{largest}: {}",
                round_above(largest)
            );
        }
    }

    #[test]
    fn time_counts_from_the_start() {
        assert_eq!(clock(0.0), "0:00");
        assert_eq!(clock(65.0), "1:05");
    }
}
