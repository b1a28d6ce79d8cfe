//! Supervised tasks: a task that must run for ever and ends, or panics, ends the process.

use std::future::Future;
use std::time::Duration;

use tokio::task::{AbortHandle, JoinError, JoinSet};

use crate::clock::Clock;

/// Why a supervised set of tasks is over.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A task returned although nothing had told it to.
    #[error("task {name} ended early")]
    EndedEarly {
        /// The name given at spawn.
        name: &'static str,
    },
    /// A task panicked; the message is in the log, where the panic hook put it.
    #[error("task {name} panicked")]
    Panicked {
        /// The name given at spawn.
        name: &'static str,
    },
}

/// Owns the tasks of a process; dropping it aborts them.
#[derive(Debug, Default)]
pub struct TaskSet {
    tasks: JoinSet<&'static str>,
    names: Vec<(tokio::task::Id, &'static str)>,
}

impl TaskSet {
    /// No tasks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs `future` next to the other tasks. `name` appears in [`Error`].
    #[allow(clippy::disallowed_methods, reason = "the one place that spawns")]
    pub fn spawn(
        &mut self,
        name: &'static str,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> AbortHandle {
        let handle = self.tasks.spawn(async move {
            future.await;
            name
        });
        self.names.push((handle.id(), name));
        handle
    }

    /// Waits for the first task that ends or panics; for ever if there are no tasks.
    ///
    /// Call while the process is meant to run: any return is a failure. Cancel safe.
    pub async fn first_failure(&mut self) -> Error {
        match self.tasks.join_next().await {
            Some(Ok(name)) => Error::EndedEarly { name },
            Some(Err(error)) => self.panicked(&error),
            None => std::future::pending().await,
        }
    }

    /// Waits at most `limit` until all tasks have ended, then aborts the rest. Reports a panic.
    pub async fn drain(&mut self, clock: &Clock, limit: Duration) -> Result<(), Error> {
        let deadline = clock.instant() + limit;
        loop {
            tokio::select! {
                joined = self.tasks.join_next() => match joined {
                    Some(Ok(_)) => {}
                    Some(Err(error)) if error.is_cancelled() => {}
                    Some(Err(error)) => return Err(self.panicked(&error)),
                    None => return Ok(()),
                },
                () = clock.sleep_until(deadline) => {
                    self.tasks.shutdown().await;
                    return Ok(());
                }
            }
        }
    }

    fn panicked(&self, error: &JoinError) -> Error {
        let name = self
            .names
            .iter()
            .find(|(id, _)| *id == error.id())
            .map_or("unknown", |(_, name)| name);
        if error.is_panic() {
            Error::Panicked { name }
        } else {
            Error::EndedEarly { name }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_ends_early_is_named() {
        let mut tasks = TaskSet::new();
        tasks.spawn("forever", std::future::pending());
        tasks.spawn("informer", async {});
        assert_eq!(
            tasks.first_failure().await.to_string(),
            "task informer ended early"
        );
    }

    #[tokio::test]
    async fn a_task_that_panics_is_named() {
        let mut tasks = TaskSet::new();
        tasks.spawn("worker", async { panic!("expected by this test") });
        assert_eq!(tasks.first_failure().await.to_string(), "task worker panicked");
    }

    #[tokio::test(start_paused = true)]
    async fn draining_waits_then_aborts_what_is_left() {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let mut tasks = TaskSet::new();
        tasks.spawn("forever", std::future::pending());
        let before = clock.instant();
        tasks.drain(&clock, Duration::from_secs(10)).await.unwrap();
        assert_eq!(clock.instant() - before, Duration::from_secs(10));
    }
}
