//! Whether clients can reach the server, and what became of the connections they had.

use std::io;

/// Counts what happened to open connections; a watch compares it with what it was when it opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Connections {
    pub(super) down: bool,
    closed: u64,
    broken: u64,
}

/// What became of a connection since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Since {
    Open,
    /// The server ended it in good order.
    Closed,
    /// It was cut.
    Broken,
}

impl Connections {
    /// Ends the open ones in good order.
    pub(super) fn close(&mut self) {
        self.closed += 1;
    }

    /// Cuts the open ones and lets no new ones in.
    pub(super) fn cut(&mut self) {
        self.down = true;
        self.broken += 1;
    }

    pub(super) fn since(self, opened: Self) -> Since {
        if self.broken != opened.broken {
            Since::Broken
        } else if self.closed != opened.closed {
            Since::Closed
        } else {
            Since::Open
        }
    }
}

pub(super) fn refused() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionRefused, "connection refused")
}

/// The connection was cut.
pub(super) fn reset() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "connection reset by peer")
}
