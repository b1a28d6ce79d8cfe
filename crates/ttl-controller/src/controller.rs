//! The loop: node → view → decide → apply.

use std::sync::atomic::{AtomicBool, Ordering};

use controller_core::clock::Clock;
use controller_core::events::{Event, EventType, Recorder, reference};
use controller_core::informer::{Change, Handler, Store};
use controller_core::leader::Term;
use controller_core::meta::ObjectKey;
use controller_core::own_writes::{OwnWrites, Standing};
use controller_core::rival::{Rivals, Verdict};
use controller_core::runtime::Env;
use controller_core::workers::{Next, Reconciler};
use controller_core::workqueue::WorkQueue;

use crate::apply::{Applied, Apply};
use crate::config::Config;
use crate::decide::{self, Plan, Step};
use crate::error::Error;
use crate::live::LiveNodes;
use crate::metrics::SharedStep;
use crate::route;
use crate::view::{Annotation, NodeView};

/// Keeps every node's annotation at what the cluster's size asks for.
pub struct Controller {
    clock: Clock,
    nodes: Store<NodeView>,
    queue: WorkQueue<ObjectKey>,
    /// Remembered between decisions (TTL-1's hysteresis); `None` before the first full list.
    step: SharedStep,
    /// Whether a term is on: outside of one, changes only move the step.
    leading: AtomicBool,
    writes: OwnWrites<ObjectKey, i64>,
    rivals: Rivals<ObjectKey>,
    apply: Apply,
    live: LiveNodes,
    events: Recorder,
}

impl Handler<NodeView> for Controller {
    fn on_change(&self, change: Change<'_, NodeView>, nodes: &Store<NodeView>) {
        match change {
            Change::Added(new) => self.changed(None, Some(new), nodes),
            Change::Updated { old, new } => self.changed(Some(old), Some(new), nodes),
            Change::Deleted(old) => self.changed(Some(old), None, nodes),
        }
    }

    fn on_synced(&self, nodes: &Store<NodeView>) {
        self.choose_step(nodes);
    }
}

impl Reconciler for Controller {
    type Key = ObjectKey;
    type Error = Error;

    fn begin(&self) {
        // What the nodes carry is what the leader before us decided, with a memory we do not have.
        self.choose_step(&self.nodes);
        self.leading.store(true, Ordering::SeqCst);
        self.enqueue_all(&self.nodes);
    }

    fn end(&self) {
        self.leading.store(false, Ordering::SeqCst);
    }

    async fn sync(&self, key: &ObjectKey, term: &Term) -> Result<Next, Error> {
        let Some(step) = *self.step.lock() else {
            return Ok(Next::Settled);
        };
        let desired = step.desired_ttl_seconds();
        let Some(node) = self.nodes.get(key) else {
            self.forget(key);
            return Ok(Next::Settled);
        };
        let mut plan = decide::plan(&node, desired);
        if plan == Plan::Nothing {
            return Ok(Next::Settled);
        }
        match self.writes.standing(key) {
            // The cache lags behind our own write: the watch, or the clock, will bring us back.
            Standing::InFlight(written, left) if written == desired => return Ok(Next::After(left)),
            Standing::Confirmed(written) if written == desired => {
                if let Verdict::BackOff { wait, first } = self.rivals.undone(key, self.clock.instant()) {
                    if first {
                        self.name_rival(&node, desired).await;
                    }
                    return Ok(Next::After(wait));
                }
            }
            Standing::Unknown => match self.live.one(key).await? {
                Some(live) => {
                    self.writes.settle(key);
                    plan = decide::plan(&live, desired);
                }
                None => return Ok(Next::Settled),
            },
            Standing::Settled | Standing::InFlight(..) | Standing::Confirmed(_) => {}
        }
        self.write(key, &plan, desired, term).await?;
        Ok(Next::Settled)
    }
}

impl Controller {
    /// A controller that reads `nodes` and takes its keys from `queue`.
    ///
    /// Fails when the registry has its metrics already.
    pub fn new(
        config: &Config,
        env: &Env,
        nodes: Store<NodeView>,
        queue: WorkQueue<ObjectKey>,
    ) -> prometheus::Result<Self> {
        Ok(Self {
            clock: env.clock.clone(),
            nodes,
            queue,
            step: SharedStep::default(),
            leading: AtomicBool::new(false),
            writes: OwnWrites::new(env.clock.clone()),
            rivals: Rivals::register(&env.registry)?,
            apply: Apply::new(env, config.common.dry_run),
            live: LiveNodes::new(env.client.clone(), env.caller.clone()),
            events: env.events.clone(),
        })
    }

    /// The step, for the metrics.
    pub fn step(&self) -> SharedStep {
        SharedStep::clone(&self.step)
    }

    async fn write(&self, key: &ObjectKey, plan: &Plan, desired: i64, term: &Term) -> Result<(), Error> {
        let sending = self.writes.sending(key);
        match self.apply.execute(plan, term).await {
            Ok(Applied::Written) => {
                sending.accepted(desired);
                self.rivals.wrote(key, self.clock.instant());
            }
            Ok(Applied::Nothing | Applied::Planned) => sending.refused(),
            Ok(Applied::Gone) => self.forget(key),
            Err(failed) => {
                if !failed.fate_unknown() {
                    sending.refused();
                }
                return Err(failed.into());
            }
        }
        Ok(())
    }

    fn changed(&self, old: Option<&NodeView>, new: Option<&NodeView>, nodes: &Store<NodeView>) {
        match (old, new) {
            (
                _,
                Some(NodeView {
                    key,
                    annotation: Annotation::Seconds(seconds),
                }),
            ) => self.writes.shown(key, seconds),
            (Some(gone), None) => self.forget(&gone.key),
            _ => {}
        }
        let wake = route::wake(old, new);
        if wake.recount {
            self.recount(nodes);
        }
        if let Some(node) = wake.node
            && self.leading.load(Ordering::SeqCst)
        {
            self.queue.add(node);
        }
    }

    /// A node came or went: every node is rewritten when that moves the step (TTL-5).
    fn recount(&self, nodes: &Store<NodeView>) {
        let count = nodes.len();
        let mut step = self.step.lock();
        let Some(from) = *step else { return };
        let to = decide::step(from, count);
        if to == from {
            return;
        }
        *step = Some(to);
        drop(step);
        log_step(to, count);
        if self.leading.load(Ordering::SeqCst) {
            self.enqueue_all(nodes);
        }
    }

    fn choose_step(&self, nodes: &Store<NodeView>) {
        let nodes = nodes.snapshot();
        let mut step = self.step.lock();
        let chosen = decide::first_step(
            nodes.iter().map(|node| &node.annotation),
            step.unwrap_or_default(),
        );
        if step.replace(chosen) != Some(chosen) {
            log_step(chosen, nodes.len());
        }
    }

    fn enqueue_all(&self, nodes: &Store<NodeView>) {
        for node in nodes.snapshot() {
            self.queue.add(node.key.clone());
        }
    }

    fn forget(&self, key: &ObjectKey) {
        self.writes.settle(key);
        self.rivals.forget(key);
    }

    /// Says once who keeps undoing our writes.
    async fn name_rival(&self, node: &NodeView, desired: i64) {
        let owner = self
            .live
            .owner_of_annotation(&node.key)
            .await
            .ok()
            .flatten()
            .unwrap_or_default();
        let manager = owner.manager.as_deref().unwrap_or("an unknown field manager");
        if !self.rivals.may_warn(manager, self.clock.instant()) {
            return;
        }
        let text = format!(
            "{manager} keeps writing {} over the TTL annotation {desired} of this and perhaps other nodes; \
             writes to them back off. Does the built-in ttl controller still run?",
            node.annotation,
        );
        tracing::warn!(node = %node.key, manager, "rival: {text}");
        self.events.publish(Event {
            regarding: reference("v1", "Node", &node.key, &owner.uid),
            related: None,
            type_: EventType::Warning,
            reason: "RivalWriter",
            action: "Annotate",
            note: text,
        });
    }
}

fn log_step(step: Step, nodes: usize) {
    tracing::info!(
        nodes,
        step = step.number(),
        ttl_seconds = step.desired_ttl_seconds(),
        "step chosen"
    );
}
