//! What a viewer sees: one stream of events, on a screen or as plain lines.

mod plain;
mod screen;

use std::io::{self, IsTerminal, Write};

use controller_core::shutdown::Trigger;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::event::{Event, Moment};

use plain::Plain;
use screen::Screen;

/// Either display.
pub(crate) enum Display {
    /// Lines on standard output.
    Plain(Plain),
    /// The whole terminal.
    Screen(Box<Screen>),
}

impl Display {
    /// The screen where there is one.
    pub(crate) fn choose(plain: bool) -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if plain || dumb || !io::stdout().is_terminal() {
            return Self::Plain(Plain::default());
        }
        // A terminal that cannot be taken over still takes lines.
        Screen::open().map_or_else(
            |_| Self::Plain(Plain::default()),
            |screen| Self::Screen(Box::new(screen)),
        )
    }

    /// Shows `moments` to their end. A viewer who leaves stops the demo.
    pub(crate) async fn show(self, moments: UnboundedReceiver<Moment>, stop: &Trigger) {
        match self {
            Self::Plain(plain) => plain.show(moments, stop).await,
            Self::Screen(screen) => screen.show(moments, stop).await,
        }
    }
}

/// Prints the last words of a demo that went well.
pub(crate) fn say(lines: &[String]) {
    let mut out = io::stdout().lock();
    for line in lines {
        // Whoever closed it does not want to know.
        let _ = writeln!(out, "{line}");
    }
}

/// Prints the last words of one that did not.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// The words that tell the story; both displays show the same.
fn narration(event: &Event) -> Option<String> {
    Some(match event {
        Event::Cluster { url, .. } => format!("The API server is {url}"),
        Event::Scene {
            number,
            of,
            controller,
            shows,
            ..
        } => format!("Scene {number} of {of}, {controller}: {shows}"),
        Event::Step { number, title, says } => format!("Step {number}, {title}. {says}"),
        Event::AsExpected { counts, writes, took } => {
            let took = took.as_secs_f64();
            format!("As expected after {took:.1} s: {counts}; {writes}")
        }
        Event::Started {
            controller,
            pid,
            admin,
        } => format!("{controller} runs as process {pid}; its metrics: http://{admin}/metrics"),
        Event::Said { controller, text } => format!("{controller} says: {text}"),
        Event::Explained(line) => format!("│ {line}"),
        Event::Note(text) => text.clone(),
        Event::Counts(_) | Event::Did { .. } | Event::Metrics { .. } => return None,
    })
}

/// The `kubectl` command that leads to the cluster.
#[derive(Clone, Debug, Default)]
struct Kubectl(String);

impl Kubectl {
    /// Learns where the cluster is.
    fn learn(&mut self, event: &Event) {
        if let Event::Cluster {
            kubeconfig, context, ..
        } = event
        {
            let file = quoted(&kubeconfig.to_string_lossy());
            let context = context
                .as_deref()
                .map(|context| format!(" --context {}", quoted(context)));
            self.0 = format!("kubectl --kubeconfig {file}{}", context.unwrap_or_default());
        }
    }

    fn command(&self, arguments: &str) -> String {
        format!("{} {arguments}", self.0)
    }
}

/// For a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=+".contains(c);
    if word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
