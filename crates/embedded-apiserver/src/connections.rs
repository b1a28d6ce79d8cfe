//! Reachability of the server, and the state of open connections.

use std::io;

/// Counts how often open connections were closed or cut; a watch compares the counts with those at its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Connections {
    pub(super) down: bool,
    closed: u64,
    broken: u64,
}

/// The state of a connection since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Since {
    Open,
    /// The server ended the connection in good order.
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
