//! The process around a controller: client, informers, leader election, admin server, command line.
//!
//! | module | holds |
//! |---|---|
//! | [`runtime`] | starts the process, supervises its tasks, ends it: start here |
//! | [`driver`] | performs the effects of the loop, and feeds it |
//! | [`informer`] | list and watch, in JSON and protobuf |
//! | [`api`], [`sender`], [`leader`] | client, limits and error classes; queries and writes under a term; the Lease |
//! | [`events`], [`metrics`], [`telemetry`] | sends events; the registry; logs |
//! | [`admin`], [`readiness`], [`tls_files`] | `/metrics`, `/livez`, `/readyz`, who may read them, and their certificates |
//! | [`args`], [`config`] | one struct gives flags, environment variables, file and schema |
//! | [`clock`], [`tasks`], [`shutdown`] | time; supervised tasks; the stages of the end |
//!
//! Its rules; `cargo xtask rules` checks the names:
//!
//! | rule | code | tests |
//! |---|---|---|
//! | CORE-3 | `Informer`, `ListWatch` | `tests/informer/scripted/mod.rs::a_relist_yields_the_differences_deletions_first`, `tests/informer/http/objects.rs::a_bad_object_does_not_fail_its_page` |
//! | CORE-4 | `Informer` | `tests/informer/scripted/mod.rs::sync_waits_for_the_whole_list_and_for_the_handlers` |
//! | CORE-6 | `elector`, `Term` | `src/leader/tests/simulation.rs::never_two_valid_terms_at_once_and_a_leader_when_the_trouble_is_over`, `src/leader/tests/whole_loop/mod.rs::a_released_lease_is_taken_at_once` |
//! | CORE-7 | `EventRecorder`, `EventSender` | `src/events/tests/sending.rs::events_for_which_there_is_no_room_are_dropped_and_counted` |
//! | CORE-8 | `AdminServer`, `Authorizer`, `Readiness`, `Liveness` | `tests/admin/connections.rs::a_request_that_never_ends_is_cut`, `tests/admin/authorization.rs::metrics_and_config_are_for_those_whom_the_api_server_allows_it`, `tests/admin/authorization.rs::where_nobody_is_asked_the_config_is_for_callers_from_localhost` |
//! | CORE-9 | `Metrics`, `RequestMetrics` | `tests/metrics.rs::promtool_has_nothing_to_say_about_the_metrics` |
//! | CORE-10 | `init` | `tests/telemetry.rs::a_panic_is_one_line_of_the_log_and_is_counted` |
//! | CORE-11 | `Shutdown`, `TaskSet` | `src/shutdown.rs::the_first_signal_drains_and_the_second_aborts` |
//! | CORE-12 | `connect`, `Informer` | `tests/informer/http/watches.rs::a_server_that_breaks_is_retried` |
//! | CORE-13 | `connect`, `reloading`, `Reloading` | `tests/credentials/real.rs::live_a_rotated_token_is_used_without_a_restart`, `tests/credentials/real.rs::live_a_rotated_client_certificate_is_used_without_a_restart`, `tests/credentials/rotation.rs::a_half_written_pair_changes_nothing_until_its_other_half_is_there` |
//! | CORE-14 | `PlannedWrites`, `Driver` | `src/metrics/mod.rs::the_build_the_panics_and_the_planned_writes_are_shown`, `tests/run.rs::a_dry_run_writes_nothing_and_counts_once` |
//! | CORE-15 | `Informer` | `tests/informer/http/objects.rs::hostile_objects_neither_panic_nor_stop_the_watch` |
//! | CORE-18 | `InformerState`, `untested` | `tests/informer/http/watches.rs::a_resource_that_is_not_served_is_looked_for_every_30_s`, `src/runtime/version.rs::a_version_that_was_not_tested_is_found` |

#![deny(missing_docs)]

pub mod admin;
pub mod api;
pub mod args;
pub mod clock;
pub mod config;
pub mod driver;
pub mod events;
pub mod informer;
pub mod leader;
pub mod metrics;
pub mod readiness;
pub mod runtime;
pub mod sender;
pub mod shutdown;
pub mod tasks;
pub mod telemetry;
pub mod tls_files;
