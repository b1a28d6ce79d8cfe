//! What a controller is made of, as values: no client, no clock, no task.
//!
//! A controller returns the one thing to do for a key; the loop does it, and calls `reconcile` again. So a crash between
//! two writes needs no case of its own, and the binary, the tests and the model of `controller-testing` run the same
//! [`Loop`](controller::Loop). From `examples/dimmer.rs`, a whole controller in one file:
//!
//! ```rust,ignore
//! fn reconcile(&self, cx: &Context<'_, Self>, key: &ObjectKey) -> Action<Self> {
//!     if cx.stores.freshness(key) == Freshness::Unknown {
//!         // Nobody knows what became of our last write.
//!         return cx.read_again(key, Query(key.clone()));
//!     }
//!     match cx.stores.get(key).and_then(|lamp| step(&lamp)) {
//!         Some(shines) => Action::Write(vec![Dim {
//!             lamp: key.clone(),
//!             shines,
//!         }]),
//!         None => Action::Done(vec![]),
//!     }
//! }
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`controller`] | a controller as a value, and the loop that runs it: start here |
//! | [`cache`] | trimmed views of objects, stores with indexes, our own writes on top |
//! | [`api`], [`rival`] | requests and what their answers mean; writers that undo our writes |
//! | [`events`], [`metrics`], [`workqueue`] | events; families of metrics; `workqueue_*` and the token bucket |
//! | [`app`], [`about`](mod@about), [`config`], [`version`] | what a binary needs to know of its controller; its settings; versions of Kubernetes |
//! | [`labels`], [`selector`] | labels of an object, and label selectors |
//! | [`time`], [`error`], [`meta`], [`log_throttle`], [`fingerprint`] | time; error chains; names, uids and owners; repeated log lines; states as hashes |
//!
//! `controller-runtime` makes a process of it. A controller's library depends on this crate alone.
//!
//! Its rules; `cargo xtask rules` checks the names:
//!
//! | rule | code | tests |
//! |---|---|---|
//! | CORE-1 | `KeyQueue` | `tests/event_loop/queue_props.rs::any_sequence_of_calls_does_what_the_contract_says` |
//! | CORE-2 | `Timers` | `tests/event_loop/queue_props.rs::any_sequence_of_calls_does_what_the_contract_says`, `tests/event_loop/times.rs::a_time_that_is_moved_during_the_pass_of_its_key_counts_after_it` |
//! | CORE-4 | `Loop` | `tests/event_loop/queue.rs::nothing_is_asked_before_the_caches_are_full` |
//! | CORE-5 | `AnswerClass`, `Freshness` | `src/api/outcome.rs::another_uid_means_gone_in_every_form_the_server_has_for_it`, `tests/mutations/props.rs::the_store_is_never_older_than_what_it_was_told` |
//! | CORE-8 | `QueueMetrics` | `tests/event_loop/reads.rs::a_pass_that_waits_for_long_to_ask_is_slow_and_one_whose_answer_never_comes_is_stuck` |
//! | CORE-11 | `Loop` | `tests/event_loop/ends.rs::a_drain_takes_no_new_keys_and_lets_passes_run_to_their_end` |
//! | CORE-14 | `Loop`, `Plans` | `tests/event_loop/ends.rs::a_planned_write_is_counted_once_until_the_plan_changes`, `tests/event_loop/ends.rs::a_plan_that_nobody_makes_for_five_minutes_is_undone` |
//! | CORE-15 | `saturating_add` | `src/time.rs::additions_saturate_instead_of_overflowing` |
//! | CORE-17 | `Contests` | `src/rival/tests.rs::the_wait_doubles_up_to_an_hour_and_the_rival_is_named_once` |

#![deny(missing_docs)]

pub mod about;
pub mod api;
pub mod app;
pub mod cache;
pub mod config;
pub mod controller;
pub mod error;
pub mod events;
pub mod fingerprint;
pub mod labels;
pub mod log_throttle;
pub mod meta;
pub mod metrics;
pub mod rival;
pub mod selector;
pub mod time;
pub mod version;
pub mod workqueue;
