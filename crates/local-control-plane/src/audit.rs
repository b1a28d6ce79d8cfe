//! The audit log of the API server, read incrementally: a test that waits for a request reads it again and again.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Error;

#[derive(Serialize, Deserialize)]
pub(super) struct AuditLog {
    path: PathBuf,
    seen: Mutex<Seen>,
}

/// The part of the log read so far.
#[derive(Default, Serialize, Deserialize)]
struct Seen {
    bytes: u64,
    lines: usize,
    /// Requests that were received before are left out.
    since: String,
    #[serde(skip)]
    events: Vec<Arc<Value>>,
}

impl AuditLog {
    /// The log in the file `path`, which need not exist yet.
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            seen: Mutex::default(),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves out the requests that were received before now, also where they are answered later.
    #[allow(clippy::disallowed_methods, reason = "the log has the time of the machine")]
    pub(super) fn begin(&self) {
        let mut seen = self.seen();
        seen.since = format!("{:.6}", Timestamp::now());
        seen.events.clear();
    }

    /// All events so far; a line that is still being written is left out.
    pub(super) fn events(&self) -> Result<Vec<Arc<Value>>, Error> {
        let mut seen = self.seen();
        let new = self.after(seen.bytes).map_err(|source| Error::File {
            doing: "read",
            path: self.path.clone(),
            source,
        })?;
        let complete = new
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        let mut events = Vec::new();
        let mut line = seen.lines;
        for event in new[..complete].split_inclusive(|byte| *byte == b'\n') {
            line += 1;
            let event: Value =
                serde_json::from_slice(event).map_err(|source| Error::AuditLog { line, source })?;
            let received = event["requestReceivedTimestamp"].as_str();
            if received.unwrap_or_default() >= &*seen.since {
                events.push(Arc::new(event));
            }
        }
        seen.bytes += u64::try_from(complete).unwrap_or_default();
        seen.lines = line;
        seen.events.extend(events);
        Ok(seen.events.clone())
    }

    fn after(&self, bytes: u64) -> io::Result<Vec<u8>> {
        let mut log = File::open(&self.path)?;
        log.seek(SeekFrom::Start(bytes))?;
        let mut new = Vec::new();
        log.read_to_end(&mut new)?;
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_log_is_read_line_by_line_as_it_grows() {
        let dir = tempfile::tempdir().unwrap();
        let log = AuditLog::new(dir.path().join("audit.log"));
        assert!(matches!(log.events(), Err(Error::File { .. })));

        let mut file = File::create(log.path()).unwrap();
        let numbers = || -> Vec<u64> {
            let events = log.events().unwrap();
            events.iter().filter_map(|event| event["n"].as_u64()).collect()
        };
        file.write_all(b"{\"n\":1}\n{\"n\":2}\n{\"n\":").unwrap();
        assert_eq!(numbers(), [1, 2]);
        assert_eq!(numbers(), [1, 2]);
        file.write_all(b"3}\n").unwrap();
        assert_eq!(numbers(), [1, 2, 3]);
        file.write_all(b"no event\n").unwrap();
        let error = log.events().unwrap_err();
        assert_eq!(error.to_string(), "decode line 4 of the audit log");
    }

    #[test]
    fn requests_from_before_the_beginning_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let log = AuditLog::new(dir.path().join("audit.log"));
        let mut file = File::create(log.path()).unwrap();
        let mut events_with = |received: &str| {
            writeln!(file, "{{\"requestReceivedTimestamp\":\"{received}\"}}").unwrap();
            log.events().unwrap().len()
        };
        assert_eq!(events_with("2026-01-01T00:00:00.000000Z"), 1);
        log.begin();
        assert_eq!(events_with("2026-01-01T00:00:00.000000Z"), 0);
        assert_eq!(events_with("9026-01-01T00:00:00.000000Z"), 1);
    }
}
