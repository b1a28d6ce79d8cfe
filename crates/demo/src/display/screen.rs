//! The full-screen display and its keys.

use std::io;
use std::time::Duration;

use controller_runtime::clock::Clock;
use controller_runtime::shutdown::Trigger;
use crossterm::event::{Event as TerminalEvent, EventStream, KeyCode, KeyEvent, KeyModifiers};
use futures::StreamExt;
use ratatui::DefaultTerminal;
use tokio::sync::mpsc::UnboundedReceiver;

use super::picture::Picture;
use crate::event::Moment;

/// Shortest interval between frames.
const FRAME: Duration = Duration::from_millis(60);

/// A terminal that shows the demo. It is restored on drop, and by a panic hook before the panic is printed.
pub(crate) struct Screen {
    terminal: DefaultTerminal,
    picture: Picture,
    // Last, so that the terminal shows its cursor before it is restored.
    _given_back: GivenBack,
}

struct GivenBack;

impl Drop for GivenBack {
    fn drop(&mut self) {
        // After a panic the hook has restored it; a second time would put the cursor into the panic's message.
        if !std::thread::panicking() {
            // If the terminal is gone, there is nothing to restore.
            let _ = ratatui::try_restore();
        }
    }
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
                    // Perhaps a new size.
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

/// The next key or event; never returns again once the input has ended.
async fn next_key(keys: &mut Option<EventStream>) -> Option<TerminalEvent> {
    match keys {
        Some(keys) => keys.next().await?.ok(),
        None => std::future::pending().await,
    }
}

/// A terminal in raw mode turns Ctrl-C into a key, not a signal.
fn asks_to_stop(key: KeyEvent) -> bool {
    let control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    control_c || key.code == KeyCode::Char('q')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_c_stops_although_the_terminal_makes_no_signal_of_it() {
        let key = |code, modifiers| asks_to_stop(KeyEvent::new(code, modifiers));
        assert!(key(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert!(key(KeyCode::Char('q'), KeyModifiers::NONE));
        assert!(!key(KeyCode::Char('c'), KeyModifiers::NONE));
    }
}
