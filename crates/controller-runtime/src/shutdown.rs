//! Two-stage shutdown (CORE-11): the first signal drains, the second aborts.

use tokio::sync::watch;

/// Progress of the shutdown; later stages compare greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// No signal yet.
    Running,
    /// Take no new work, finish what is being written.
    Draining,
    /// Stop at once.
    Aborting,
}

/// The side that starts the shutdown.
#[derive(Debug)]
pub struct Trigger(watch::Sender<Stage>);

/// The side that follows it; cheap to clone.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<Stage>);

/// A connected pair, at [`Stage::Running`].
pub fn channel() -> (Trigger, Shutdown) {
    let (tx, rx) = watch::channel(Stage::Running);
    (Trigger(tx), Shutdown(rx))
}

impl Trigger {
    /// Advances one stage: running → draining → aborting. Returns the stage reached.
    pub fn advance(&self) -> Stage {
        self.0.send_modify(|stage| {
            *stage = match stage {
                Stage::Running => Stage::Draining,
                Stage::Draining | Stage::Aborting => Stage::Aborting,
            };
        });
        *self.0.borrow()
    }
}

impl Shutdown {
    /// The current stage.
    pub fn stage(&self) -> Stage {
        *self.0.borrow()
    }

    /// Completes once draining (or aborting) has begun.
    pub async fn draining(&self) {
        self.reached(Stage::Draining).await;
    }

    /// Completes once aborting has begun.
    pub async fn aborting(&self) {
        self.reached(Stage::Aborting).await;
    }

    async fn reached(&self, stage: Stage) {
        let mut rx = self.0.clone();
        // A dropped trigger can no longer advance: wait for ever.
        if rx.wait_for(|now| *now >= stage).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_signal_drains_and_the_second_aborts() {
        let (trigger, shutdown) = channel();
        assert_eq!(shutdown.stage(), Stage::Running);
        assert_eq!(trigger.advance(), Stage::Draining);
        shutdown.draining().await;
        assert_eq!(trigger.advance(), Stage::Aborting);
        shutdown.aborting().await;
        assert_eq!(trigger.advance(), Stage::Aborting);
    }
}
