//! The whole terminal: story, live counts, writes with their reasons, numbers.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::Duration;

use controller_core::clock::Clock;
use controller_core::shutdown::Trigger;
use crossterm::event::{Event as TerminalEvent, EventStream, KeyCode, KeyEvent, KeyModifiers};
use futures::StreamExt;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Gauge, Paragraph, Wrap};
use ratatui::{DefaultTerminal, Frame};
use tokio::sync::mpsc::UnboundedReceiver;

use super::{Kubectl, narration};
use crate::counts::Counts;
use crate::event::{Action, Event, Moment, Writes};
use crate::metrics::Reading;

/// How often the screen is drawn at most.
const FRAME: Duration = Duration::from_millis(60);
/// How many paragraphs and actions are remembered: more than fit on any screen.
const REMEMBERED: usize = 200;

/// A terminal that shows the demo; it is given back on drop, and by a panic hook before a panic is printed.
pub(crate) struct Screen {
    terminal: DefaultTerminal,
    picture: Picture,
    // Last: the terminal shows its cursor again before it is given back.
    _given_back: GivenBack,
}

struct GivenBack;

impl Drop for GivenBack {
    fn drop(&mut self) {
        // After a panic the hook has done it, and a second time would put the cursor into the panic's message.
        if !std::thread::panicking() {
            // Where it is gone there is nothing to give back.
            let _ = ratatui::try_restore();
        }
    }
}

/// What is on the screen.
#[derive(Debug, Default)]
struct Picture {
    at: Duration,
    kubectl: Kubectl,
    look: String,
    /// The controller it shows; its number, and of how many.
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

/// A paragraph, and how it looks; without a text it is a gap.
#[derive(Debug)]
struct Told {
    text: String,
    style: Style,
}

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        let given_back = GivenBack;
        let terminal = ratatui::try_init()?;
        Ok(Self {
            terminal,
            picture: Picture::default(),
            _given_back: given_back,
        })
    }

    pub(super) async fn show(mut self, mut moments: UnboundedReceiver<Moment>, stop: &Trigger) {
        let clock = Clock::system();
        let mut keys = Some(EventStream::new());
        let mut next_frame = clock.instant();
        let mut drawn = false;
        loop {
            tokio::select! {
                moment = moments.recv() => match moment {
                    Some(moment) => {
                        self.picture.add(&moment);
                        drawn = false;
                    }
                    None => return,
                },
                key = next_key(&mut keys) => match key {
                    Some(TerminalEvent::Key(key)) if asks_to_stop(key) => {
                        stop.advance();
                    }
                    // Another size, perhaps.
                    Some(_) => drawn = false,
                    None => keys = None,
                },
                () = clock.sleep_until(next_frame), if !drawn => {
                    if self.terminal.draw(|frame| self.picture.draw(frame)).is_err() {
                        stop.advance();
                        return;
                    }
                    drawn = true;
                    next_frame = clock.instant() + FRAME;
                }
            }
        }
    }
}

/// The next thing that the user does; none when nothing can be heard of them any more.
async fn next_key(keys: &mut Option<EventStream>) -> Option<TerminalEvent> {
    match keys {
        Some(keys) => keys.next().await?.ok(),
        None => std::future::pending().await,
    }
}

/// A terminal that is taken over makes no signal of Ctrl-C.
fn asks_to_stop(key: KeyEvent) -> bool {
    let control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    control_c || key.code == KeyCode::Char('q')
}

/// What events change.
impl Picture {
    fn add(&mut self, moment: &Moment) {
        self.at = moment.at;
        self.kubectl.learn(&moment.event);
        let style = match &moment.event {
            Event::Scene {
                number,
                of,
                controller,
                counted,
                steps,
                kubectl,
                ..
            } => {
                self.scene = controller;
                self.scenes = (*number, *of);
                self.look = self.kubectl.command(kubectl);
                (self.counted, self.steps) = (counted, *steps);
                (self.step, self.steps_done) = (0, 0);
                self.counts = Counts::default();
                // What the others did is told; what they do from now on is shown with the rest.
                self.actions.clear();
                self.readings.clear();
                self.leave_a_gap();
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
            Event::Said { .. } | Event::Explained(_) => Style::new().cyan(),
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

/// How it looks.
impl Picture {
    fn draw(&self, frame: &mut Frame<'_>) {
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

/// The end of what was told, as much of it as there is room for.
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

/// `text` in lines of at most `width` characters, broken between words where that is possible.
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

    use super::*;

    const NAME: &str = "ttl-controller";
    const OTHER: &str = "taint-eviction-controller";

    fn picture(events: Vec<Event>) -> Picture {
        let mut picture = Picture::default();
        for (number, event) in (0_u32..).zip(events) {
            picture.add(&Moment {
                at: Duration::from_millis(400) * number,
                event,
            });
        }
        picture
    }

    fn drawn(picture: &Picture, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| picture.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    fn in_the_middle() -> Picture {
        picture(first_scene())
    }

    fn after_a_scene_change() -> Picture {
        let mut events = first_scene();
        events.extend([
            Event::Scene {
                number: 2,
                of: 2,
                controller: OTHER,
                shows: "It evicts pods from nodes that fail.",
                kubectl: "get pods -w",
                counted: "pods by node",
                steps: 3,
            },
            Event::Step {
                number: 1,
                title: "a node fails",
                says: "What does not tolerate that goes.",
            },
            Event::Counts(
                [(5, "demo-node-0001 Running"), (1, "demo-node-0001 leaving")]
                    .into_iter()
                    .collect(),
            ),
            Event::Did {
                controller: OTHER,
                action: Action::Wrote,
                object: "default/demo-0001-intolerant".to_owned(),
                reason: "pod deleted: taint node.kubernetes.io/not-ready:NoExecute of node demo-node-0001"
                    .to_owned(),
            },
            reading(NAME, 21),
            reading(OTHER, 3),
        ]);
        picture(events)
    }

    fn reading(controller: &'static str, writes: u64) -> Event {
        let reading = Reading {
            writes,
            ..Reading::default()
        };
        Event::Metrics { controller, reading }
    }

    fn first_scene() -> Vec<Event> {
        let mut events = vec![
            Event::Cluster {
                url: "http://127.0.0.1:4711/".to_owned(),
                kubeconfig: "/tmp/demo/kubeconfig".into(),
                context: None,
            },
            Event::Scene {
                number: 1,
                of: 2,
                controller: NAME,
                shows: "It writes TTLs.",
                kubectl: "get nodes -w",
                counted: "nodes by TTL",
                steps: 4,
            },
            Event::Step {
                number: 1,
                title: "90 nodes",
                says: "No controller runs yet.",
            },
            Event::AsExpected {
                counts: [(90, "no TTL")].into_iter().collect(),
                writes: Writes(0),
                took: Duration::from_millis(300),
            },
            Event::Step {
                number: 2,
                title: "120 nodes",
                says: "More than 100: every node is rewritten at once, to 15 s.",
            },
            Event::Started {
                controller: NAME,
                pid: 42,
                admin: "127.0.0.1:4712".to_owned(),
            },
            Event::Said {
                controller: NAME,
                text: "step chosen (nodes=120, step=1, ttl_seconds=15)".to_owned(),
            },
        ];
        events.extend((1..=20).map(|number| Event::Did {
            controller: NAME,
            action: Action::Wrote,
            object: format!("demo-node-{number:04}"),
            reason: "TTL set to 15 s, was 0".to_owned(),
        }));
        events.push(Event::Counts(
            [(100, "no TTL"), (20, "15 s")].into_iter().collect(),
        ));
        events.push(Event::Metrics {
            controller: NAME,
            reading: Reading {
                queue_depth: 95,
                queue_adds: 120,
                working: true,
                writes: 20,
                failures: 0,
            },
        });
        events
    }

    #[test]
    fn a_new_scene_has_counts_writes_and_numbers_of_its_own() {
        insta::assert_snapshot!(drawn(&after_a_scene_change(), 100, 24));
    }

    #[test]
    fn the_screen_shows_the_story_the_counts_the_writes_and_the_numbers() {
        insta::assert_snapshot!(drawn(&in_the_middle(), 100, 24));
    }

    #[test]
    fn no_size_is_too_small() {
        let picture = in_the_middle();
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

    #[test]
    fn control_c_stops_although_the_terminal_makes_no_signal_of_it() {
        let key = |code, modifiers| asks_to_stop(KeyEvent::new(code, modifiers));
        assert!(key(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert!(key(KeyCode::Char('q'), KeyModifiers::NONE));
        assert!(!key(KeyCode::Char('c'), KeyModifiers::NONE));
    }
}
