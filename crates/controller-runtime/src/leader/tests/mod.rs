//! Where the cases of client-go v0.36.3 (`leaderelection_test.go`, `resourcelock/leaselock_test.go`) are.
//!
//! | client-go | here |
//! |---|---|
//! | TryAcquireOrRenew: acquire from no object | `whole_loop::an_absent_lease_is_created_and_renewed_every_retry_period` |
//! | … from object without annotations | `rule::a_lease_without_a_spec_is_taken_at_once` |
//! | … from led object with the lease duration seconds | `rule::the_duration_in_the_record_counts_not_our_own_where_it_says_something` |
//! | … from unled object | `rule::a_released_lease_is_taken_at_once` |
//! | … from led, unacked object | `rule::a_lease_that_somebody_holds_is_left_alone_until_it_expires` |
//! | … from empty led, acked object | `rule::a_released_lease_is_taken_at_once` |
//! | … don't acquire from led, acked object | `rule::a_lease_that_somebody_holds_is_left_alone_until_it_expires` |
//! | … renew already acquired object | `rule::our_own_lease_is_renewed_with_its_acquire_time_and_transitions` |
//! | TryCoordinatedRenew | coordinated election is alpha and not ours |
//! | LeaseSpecToLeaderElectionRecordRoundTrip, LeaseConversion | `wire::a_lease_goes_back_as_it_came` |
//! | ReleaseLease, ReleaseMethodCallsGet | `whole_loop::release::a_shutdown_releases_the_lease` |
//! | ReleaseOnCancellation: of update | `whole_loop::release::a_shutdown_during_a_renewal_releases_the_lease` |
//! | … of get | `whole_loop::release::a_shutdown_during_a_look_releases_the_lease` |
//! | LeaderElectionConfigValidation | `tests/config/main.rs::each_case_has_its_answer` |
//! | FastPathLeaderElection: exercise fast path | `whole_loop::an_absent_lease_is_created_and_renewed_every_retry_period` |
//! | … fallback to slow path | `whole_loop::term::an_edit_by_somebody_else_costs_one_look_and_not_the_term` |
//! | CheckMethodRace | no shared state: the state is a watch channel |
//! | leaselock GetError, CreateError, UpdateError | `whole_loop::release::a_missing_permission_is_named_until_it_is_granted`, `…::a_server_that_is_down…` |
//! | leaselock UpdateWithNilLabels*, LabelUpdate | `whole_loop::term::metadata_of_others_survives_a_renewal` |
//! | leaselock RecordEvent*, Describe | no events; the Lease is named in every error |

mod fence;
mod rule;
mod server;
mod settings;
mod simulation;
mod whole_loop;
mod wire;
