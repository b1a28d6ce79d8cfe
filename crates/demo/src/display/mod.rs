//! Displays of the stream of events: a screen, or plain lines.

mod picture;
mod plain;
#[cfg(test)]
mod samples;
mod screen;
mod words;

use std::io::{self, IsTerminal, Write};

use controller_runtime::shutdown::Trigger;
use plain::Plain;
use screen::Screen;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::event::Moment;

pub(crate) enum Display {
    /// Lines on standard output.
    Plain(Plain),
    Screen(Box<Screen>),
}

impl Display {
    /// Chooses the screen if there is one.
    pub(crate) fn choose(plain: bool) -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if plain || dumb || !io::stdout().is_terminal() {
            return Self::Plain(Plain::default());
        }
        // A terminal that cannot be taken over still accepts lines.
        Screen::open().map_or_else(
            |_| Self::Plain(Plain::default()),
            |screen| Self::Screen(Box::new(screen)),
        )
    }

    /// Shows `moments` to their end. A viewer who quits stops the demo.
    pub(crate) async fn show(self, moments: UnboundedReceiver<Moment>, stop: &Trigger) {
        match self {
            Self::Plain(plain) => plain.show(moments, stop).await,
            Self::Screen(screen) => screen.show(moments, stop).await,
        }
    }
}

/// Prints the summary of a successful demo.
pub(crate) fn say(lines: &[String]) {
    let mut out = io::stdout().lock();
    for line in lines {
        // A closed output is no error.
        let _ = writeln!(out, "{line}");
    }
}

/// Prints the error of a failed demo.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
