//! Content of the screen: story, live counts, writes with their reasons, numbers.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Gauge, Paragraph, Wrap};

use super::words::{Kubectl, narration};
use crate::counts::Counts;
use crate::event::{Action, Event, Moment, Writes};
use crate::metrics::Reading;

/// Number of paragraphs and actions to keep: more than fit on any screen.
const REMEMBERED: usize = 200;

#[derive(Debug, Default)]
pub(super) struct Picture {
    at: Duration,
    kubectl: Kubectl,
    look: String,
    /// The shown controller; its number, and the number of scenes.
    scene: &'static str,
    scenes: (usize, usize),
    steps: usize,
    step: usize,
    steps_done: usize,
    story: VecDeque<Told>,
    counted: &'static str,
    counts: Counts,
    actions: VecDeque<Told>,
    readings: BTreeMap<&'static str, Reading>,
}

/// A paragraph and its style; an empty text is a gap.
#[derive(Debug)]
struct Told {
    text: String,
    style: Style,
}

impl Picture {
    pub(super) fn add(&mut self, moment: &Moment) {
        self.at = moment.at;
        self.kubectl.observe(&moment.event);
        let style = match &moment.event {
            Event::Scene { .. } => {
                self.begin_scene(&moment.event);
                Style::new().bold().reversed()
            }
            Event::Step { number, .. } => {
                self.step = *number;
                self.leave_a_gap();
                Style::new().bold()
            }
            Event::AsExpected { .. } => {
                self.steps_done = self.step;
                Style::new().green()
            }
            Event::Said { .. } | Event::Answered(_) => Style::new().cyan(),
            Event::Counts(counts) => {
                self.counts = counts.clone();
                return;
            }
            Event::Did {
                action,
                object,
                reason,
                ..
            } => {
                let style = match action {
                    Action::Wrote => Style::new(),
                    Action::FailedOn => Style::new().red(),
                };
                let text = format!("{object}  {reason}");
                remember(&mut self.actions, Told { text, style });
                return;
            }
            Event::Metrics { controller, reading } => {
                if *controller == self.scene {
                    self.readings.insert(controller, *reading);
                }
                return;
            }
            Event::Cluster { .. } | Event::Started { .. } | Event::Note(_) => Style::new(),
        };
        if let Some(text) = narration(&moment.event) {
            remember(&mut self.story, Told { text, style });
        }
    }

    /// Clears what the previous scenes showed; later actions of their controllers are shown with the rest.
    fn begin_scene(&mut self, event: &Event) {
        let Event::Scene {
            number,
            of,
            controller,
            counted,
            steps,
            kubectl,
            ..
        } = event
        else {
            return;
        };
        self.scene = controller;
        self.scenes = (*number, *of);
        self.look = self.kubectl.command(kubectl);
        (self.counted, self.steps) = (counted, *steps);
        (self.step, self.steps_done) = (0, 0);
        self.counts = Counts::default();
        self.actions.clear();
        self.readings.clear();
        self.leave_a_gap();
    }

    fn leave_a_gap(&mut self) {
        let (text, style) = (String::new(), Style::new());
        remember(&mut self.story, Told { text, style });
    }
}

fn remember<T>(kept: &mut VecDeque<T>, new: T) {
    kept.push_back(new);
    if kept.len() > REMEMBERED {
        kept.pop_front();
    }
}

impl Picture {
    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let [head, progress, body, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Min(0),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let [left, right] =
            Layout::horizontal([Constraint::Percentage(58), Constraint::Percentage(42)]).areas(body);
        let tall =
            |rows: usize| Constraint::Length(u16::try_from(rows).unwrap_or(u16::MAX).saturating_add(2));
        let [counts, actions, readings] = Layout::vertical([
            tall(self.counts.rows().len().max(2)),
            Constraint::Min(3),
            tall(self.readings.len().max(1) * 2),
        ])
        .areas(right);

        frame.render_widget(Line::from(self.look.as_str()).dim(), head);
        self.draw_progress(frame, progress);
        draw_told(frame, left, " what happens ", &self.story);
        self.draw_counts(frame, counts);
        draw_told(frame, actions, " what was written, and why ", &self.actions);
        self.draw_readings(frame, readings);
        frame.render_widget(Line::from(" Ctrl-C or q stops and cleans up").dim(), foot);
    }

    fn draw_progress(&self, frame: &mut Frame<'_>, area: Rect) {
        let (scene, scenes) = self.scenes;
        let label = format!(
            "{scene} of {scenes}: {}  step {} of {}  {:.0} s",
            self.scene,
            self.step,
            self.steps,
            self.at.as_secs_f64()
        );
        #[allow(clippy::cast_precision_loss, reason = "a handful of steps")]
        let done = self.steps_done as f64 / self.steps.max(1) as f64;
        let gauge = Gauge::default()
            .label(label)
            .ratio(done.min(1.0))
            .green()
            .on_black();
        frame.render_widget(gauge, area);
    }

    fn draw_counts(&self, frame: &mut Frame<'_>, area: Rect) {
        let rows = self.counts.rows();
        let name = rows
            .iter()
            .map(|(what, _)| what.chars().count())
            .max()
            .unwrap_or(0);
        let most = rows.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
        let room = usize::from(area.width).saturating_sub(name + 10);
        let lines: Vec<_> = rows
            .iter()
            .map(|(what, count)| {
                let bar = "█".repeat((count * room).div_ceil(most).min(room));
                Line::from(format!(" {what:>name$} {count:>5} {bar}"))
            })
            .collect();
        frame.render_widget(titled(lines, self.counted), area);
    }

    fn draw_readings(&self, frame: &mut Frame<'_>, area: Rect) {
        let mut lines = Vec::new();
        for (controller, reading) in &self.readings {
            lines.push(Line::from(format!("{controller}: {}", Writes(reading.writes))));
            lines.push(Line::from(format!(
                "  queue {} deep, {} ever; {} retries",
                reading.queue_depth, reading.queue_adds, reading.failures
            )));
        }
        frame.render_widget(titled(lines, "from /metrics").wrap(Wrap { trim: false }), area);
    }
}

/// Draws the end of the story, as much as fits.
fn draw_told(frame: &mut Frame<'_>, area: Rect, title: &str, told: &VecDeque<Told>) {
    let block = Block::bordered().title(title);
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let mut bottom = inside.bottom();
    for paragraph in told.iter().rev() {
        let lines = wrapped(&paragraph.text, inside.width.into());
        let height = u16::try_from(lines.len()).unwrap_or(u16::MAX);
        let shown = height.min(bottom.saturating_sub(inside.y));
        if shown == 0 {
            break;
        }
        bottom -= shown;
        let hidden = usize::from(height - shown);
        let lines: Vec<_> = lines.into_iter().skip(hidden).map(Line::from).collect();
        let place = Rect::new(inside.x, bottom, inside.width, shown);
        frame.render_widget(Paragraph::new(lines).style(paragraph.style), place);
    }
}

fn titled<'a>(lines: Vec<Line<'a>>, title: &'a str) -> Paragraph<'a> {
    Paragraph::new(lines).block(Block::bordered().title(format!(" {title} ")))
}

/// `text` in lines of at most `width` characters, broken between words if possible.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            lines.push(String::new());
            used = 0;
        }
        let separator = if used > 0 { " " } else { "" };
        for letter in separator.chars().chain(word.chars()) {
            if used == width {
                lines.push(String::new());
                used = 0;
            }
            if let Some(line) = lines.last_mut() {
                line.push(letter);
            }
            used += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::samples::{
        TTL, as_expected, cluster, counts, moments, reading, said, started, step, ttl_scene, wrote,
    };
    use super::*;

    const OTHER: &str = "taint-eviction-controller";

    fn picture(events: Vec<Event>) -> Picture {
        let mut picture = Picture::default();
        moments(events).for_each(|moment| picture.add(&moment));
        picture
    }

    fn drawn(picture: &Picture, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| picture.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    fn first_scene() -> Vec<Event> {
        let mut events = vec![
            cluster("/tmp/demo/kubeconfig", None),
            ttl_scene(2, 4),
            step(1, "90 nodes", "No controller runs yet."),
            as_expected([(90, "no TTL")], 0, 300),
            step(
                2,
                "120 nodes",
                "More than 100: every node is rewritten at once, to 15 s.",
            ),
            started(),
            said("step chosen (nodes=120, step=1, ttl_seconds=15)"),
        ];
        let nodes = (1..=20).map(|number| format!("demo-node-{number:04}"));
        events.extend(nodes.map(|node| wrote(TTL, &node, "TTL set to 15 s, was 0")));
        let reading = Reading {
            queue_depth: 95,
            queue_adds: 120,
            working: true,
            writes: 20,
            failures: 0,
        };
        let controller = TTL;
        events.extend([
            counts([(100, "no TTL"), (20, "15 s")]),
            Event::Metrics { controller, reading },
        ]);
        events
    }

    fn second_scene() -> [Event; 6] {
        [
            Event::Scene {
                number: 2,
                of: 2,
                controller: OTHER,
                shows: "It evicts pods from nodes that fail.",
                kubectl: "get pods -w",
                counted: "pods by node",
                steps: 3,
            },
            step(1, "a node fails", "What does not tolerate that goes."),
            counts([(5, "demo-node-0001 Running"), (1, "demo-node-0001 leaving")]),
            wrote(
                OTHER,
                "default/demo-0001-intolerant",
                "pod deleted: taint node.kubernetes.io/not-ready:NoExecute of node demo-node-0001",
            ),
            reading(TTL, 21),
            reading(OTHER, 3),
        ]
    }

    #[test]
    fn a_new_scene_has_counts_writes_and_numbers_of_its_own() {
        insta::assert_snapshot!(drawn(
            &picture([first_scene(), second_scene().into()].concat()),
            100,
            24
        ));
    }

    #[test]
    fn the_screen_shows_the_story_the_counts_the_writes_and_the_numbers() {
        insta::assert_snapshot!(drawn(&picture(first_scene()), 100, 24));
    }

    #[test]
    fn no_size_is_too_small() {
        let picture = picture(first_scene());
        for (width, height) in [(1, 1), (2, 40), (40, 2), (7, 7), (300, 100)] {
            drawn(&picture, width, height);
        }
        drawn(&Picture::default(), 80, 24);
    }

    #[test]
    fn words_are_kept_whole_where_a_line_has_room_for_them() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("a longlonglong b", 5), ["a", "longl", "onglo", "ng b"]);
        assert_eq!(wrapped("", 5), [""]);
    }
}
