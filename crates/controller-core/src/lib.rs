//! What the five controllers share: the loop, the informers, and the process around them.
//!
//! | module | holds |
//! |---|---|
//! | [`controller`] | a controller as a value, and the loop that runs it: start here |
//! | [`informer`] | list and watch, trimmed views, the store with its indexes and our own writes |
//! | [`api`], [`leader`], [`rival`] | requests, limits and error classes; the Lease; writers that undo our writes |
//! | [`events`], [`metrics`], [`telemetry`], [`workqueue`] | events; metrics; logs; `workqueue_*` and the token bucket |
//! | [`admin`], [`readiness`], [`tls_files`] | `/metrics`, `/livez`, `/readyz`, who may read them, and their certificates |
//! | [`args`], [`config`] | one struct gives flags, environment variables, file and schema |
//! | [`runtime`], [`tasks`], [`shutdown`] | starts the process, supervises its tasks, ends it |
//! | [`clock`], [`error`], [`meta`], [`log_throttle`] | time; error chains; names, uids and owners; repeated log lines |
//!
//! Its rules; `cargo xtask rules` checks the names:
//!
//! | rule | code | tests |
//! |---|---|---|
//! | CORE-1 | `KeyQueue` | `tests/event_loop/queue_props.rs::any_sequence_of_calls_does_what_the_contract_says` |
//! | CORE-2 | `Timers` | `tests/event_loop/queue_props.rs::any_sequence_of_calls_does_what_the_contract_says`, `tests/event_loop/times.rs::a_time_that_is_moved_during_the_pass_of_its_key_counts_after_it` |
//! | CORE-3 | `Informer`, `ListWatch`, `Lenient` | `tests/informer/scripted.rs::a_relist_yields_the_differences_deletions_first`, `tests/informer/http.rs::a_bad_object_does_not_fail_its_page` |
//! | CORE-4 | `Loop` | `tests/informer/scripted.rs::sync_waits_for_the_whole_list_and_for_the_handlers`, `tests/event_loop/queue.rs::nothing_is_asked_before_the_caches_are_full` |
//! | CORE-5 | `classify`, `Freshness` | `src/api/outcome.rs::another_uid_means_gone_in_every_form_the_server_has_for_it`, `tests/mutations/props.rs::the_store_is_never_older_than_what_it_was_told` |
//! | CORE-6 | `elector`, `Term` | `src/leader/tests/simulation.rs::never_two_valid_terms_at_once_and_a_leader_when_the_trouble_is_over`, `src/leader/tests/whole_loop/mod.rs::a_released_lease_is_taken_at_once` |
//! | CORE-7 | `Recorder`, `EventSender` | `src/events/tests/sending.rs::events_for_which_there_is_no_room_are_dropped_and_counted` |
//! | CORE-8 | `AdminServer`, `Authorizer`, `Readiness`, `Liveness` | `tests/admin.rs::a_request_that_never_ends_is_cut`, `tests/admin.rs::metrics_and_config_are_for_those_whom_the_api_server_allows_it`, `tests/admin.rs::where_nobody_is_asked_the_config_is_for_callers_from_localhost`, `tests/event_loop/reads.rs::a_pass_that_waits_for_long_to_ask_is_slow_and_one_whose_answer_never_comes_is_stuck` |
//! | CORE-9 | `Metrics`, `QueueMetrics`, `RequestMetrics` | `tests/metrics.rs::promtool_has_nothing_to_say_about_the_metrics` |
//! | CORE-10 | `init` | `tests/telemetry.rs::a_panic_is_one_line_of_the_log_and_is_counted` |
//! | CORE-11 | `Shutdown`, `TaskSet` | `src/shutdown.rs::the_first_signal_drains_and_the_second_aborts`, `tests/event_loop/ends.rs::a_drain_takes_no_new_keys_and_lets_passes_run_to_their_end` |
//! | CORE-12 | `connect`, `Informer` | `tests/informer/http.rs::a_server_that_breaks_is_retried` |
//! | CORE-13 | `connect`, `reloading`, `Reloading` | `tests/credentials.rs::live_a_rotated_token_is_used_without_a_restart`, `tests/credentials.rs::live_a_rotated_client_certificate_is_used_without_a_restart`, `tests/credentials.rs::a_half_written_pair_changes_nothing_until_its_other_half_is_there` |
//! | CORE-14 | `PlannedWrites`, `Loop`, `Plans` | `tests/event_loop/ends.rs::a_planned_write_is_counted_once_until_the_plan_changes`, `tests/event_loop/ends.rs::a_plan_that_nobody_makes_for_five_minutes_is_undone`, `src/metrics/mod.rs::the_build_the_panics_and_the_planned_writes_are_shown`, `tests/event_loop/run.rs::a_dry_run_writes_nothing_and_counts_once` |
//! | CORE-15 | `saturating_add` | `tests/informer/http.rs::hostile_objects_neither_panic_nor_stop_the_watch`, `src/clock.rs::additions_saturate_instead_of_overflowing` |
//! | CORE-17 | `Contests` | `src/rival/tests.rs::the_wait_doubles_up_to_an_hour_and_the_rival_is_named_once` |
//! | CORE-18 | `InformerState`, `ServerVersion` | `tests/informer/http.rs::a_resource_that_is_not_served_is_looked_for_every_30_s`, `src/runtime/version.rs::a_version_that_was_not_tested_is_found` |

#![deny(missing_docs)]

pub mod admin;
pub mod api;
pub mod args;
pub mod clock;
pub mod config;
pub mod controller;
pub mod error;
pub mod events;
pub mod informer;
pub mod leader;
pub mod log_throttle;
pub mod meta;
pub mod metrics;
pub mod readiness;
pub mod rival;
pub mod runtime;
pub mod shutdown;
pub mod tasks;
pub mod telemetry;
pub mod tls_files;
pub mod workqueue;
