//! The rules, case by case.
//!
//! What upstream's own tests show, and where it is shown here. `sync`, `route_table` and `live` are the files and
//! folders of these names next to this one; where a rule is named, ours differs on purpose.
//!
//! | `pkg/controller/resourceclaim/controller_test.go`, `TestSyncHandler` | here |
//! |---|---|
//! | `create` | [`entries::an_entry_is_adopted_else_made`], [`entries::a_claim_is_named_after_its_pod_and_entry`]; `sync`: the request that makes it and the status after it |
//! | `create-adminaccess-feature-disabled` | [`entries::a_template_that_asks_for_what_is_off_is_refused`] (RC-7: from Kubernetes 1.36 on the gate cannot be off) |
//! | `create-adminaccess-feature-enabled` | [`entries::a_template_that_asks_for_what_is_off_is_refused`]; `sync`: it is counted with `admin_access="true"` |
//! | `create-for-grouped-pod` | [`groups::a_pod_shares_the_claims_of_its_group`]: an entry that the group does not have |
//! | `skip-create-for-pod-podgroup-does-not-exist` | [`groups::a_pod_shares_the_claims_of_its_group`]; `sync`: a pod waits for its group |
//! | `create-for-podgroup` | [`groups::a_group_gets_claims_like_a_pod`] |
//! | `skip-create-podgroup-claim-for-pod` | [`groups::a_pod_shares_the_claims_of_its_group`] |
//! | `update-pod-status-with-podgroup-claim` | [`groups::a_pod_shares_the_claims_of_its_group`]; `sync`: the status after it |
//! | `skip-create-for-pod-with-podgroup-claim-workloadresourceclaims-disabled` | [`groups::for_a_pod_of_a_group_that_does_not_count_nothing_is_made`] |
//! | `skip-create-for-pod-with-podgroup-claim-genericworkload-disabled` | [`groups::groups_count_where_the_feature_is_on`] (RC-17: where PodGroups are not served, the pod gets a claim of its own) |
//! | `create-for-grouped-pod-with-claim-workloadresourceclaims-disabled` | [`groups::for_a_pod_of_a_group_that_does_not_count_nothing_is_made`] (RC-17: nothing is made for any pod of a group) |
//! | `nop` | [`entries::an_entry_that_is_recorded_is_kept_or_asked_for`], [`entries::all_claims_of_a_pod_are_recorded_at_once`] |
//! | `nop-podgroup` | [`groups::a_group_gets_claims_like_a_pod`] |
//! | `nop-claim-in-mutation-cache-only`, `nop-claim-in-mutation-cache-only-for-podgroup` | `sync`: a claim that the watch has not shown is adopted, for a group as well |
//! | `nop-claim-in-apiserver-only`, `nop-claim-in-apiserver-only-for-podgroup` | [`entries::an_entry_that_is_recorded_is_kept_or_asked_for`] (RC-2: a live read before it is made again), [`groups::a_group_gets_claims_like_a_pod`] |
//! | `recreate` | [`entries::a_recorded_claim_that_is_gone_is_made_again`] (RC-2: after a live read; RC-3: under another name) |
//! | `recreate-for-podgroup` | [`groups::a_group_gets_claims_like_a_pod`] (RC-2, RC-3) |
//! | `recreate-wrong-owner`, `recreate-wrong-owner-podgroup` | [`entries::a_recorded_claim_that_is_gone_is_made_again`], [`groups::a_group_gets_claims_like_a_pod`] |
//! | `missing-template` | [`entries::one_failing_entry_does_not_stop_the_others`] (RC-6: it waits for the template) |
//! | `missing-template-podgroup` | [`groups::a_group_gets_claims_like_a_pod`] (RC-6) |
//! | `find-existing-claim-by-label` | [`entries::an_entry_is_adopted_else_made`] |
//! | `find-existing-claim-by-label-podgroup` | [`groups::a_group_gets_claims_like_a_pod`] |
//! | `find-created-claim-in-cache` | `sync`: a claim that the watch has not shown is adopted |
//! | `find-created-claim-in-cache-podgroup` | `sync`: the same for a group |
//! | `no-such-pod` | `sync`: the key of a pod that is gone does nothing |
//! | `no-such-podgroup` | `sync`: the key of a group that is gone does nothing |
//! | `pod-deleted` | [`entries::only_a_pod_that_may_run_wants_claims`] |
//! | `podgroup-deleted` | [`groups::a_group_gets_claims_like_a_pod`] |
//! | `no-volumes` | [`syncs::a_pod_is_synced_when_that_does_or_tells_anything`] (RC-16: such a pod is not even kept) |
//! | `create-with-other-claim` | [`entries::an_entry_is_adopted_else_made`] |
//! | `create-with-other-claim-podgroup` | [`groups::a_group_gets_claims_like_a_pod`] |
//! | `wrong-claim-owner` | [`entries::a_missing_template_stops_nothing_but_a_new_claim`] |
//! | `wrong-claim-owner-podgroup` | [`groups::a_group_gets_claims_like_a_pod`] |
//! | `create-conflict` | [`entries::a_name_that_is_taken_is_ours_or_another_is_tried`] (RC-3: a clash is looked at, no error); `sync`: any other failure is counted and retried |
//! | `create-conflict-admin-access` | the same; `sync`: it is counted with `admin_access="true"` |
//! | `create-conflict-podgroup` | [`entries::a_name_that_is_taken_is_ours_or_another_is_tried`] (RC-3); `sync`: the same for a group |
//! | `stay-reserved-seen` | [`reservations::a_reservation_goes_only_with_its_consumer`] |
//! | `stay-reserved-not-seen` | [`reservations::a_reservation_goes_only_with_its_consumer`]; `sync`: the pod is read live |
//! | `clear-reserved-structured` | [`reservations::a_reservation_goes_only_with_its_consumer`], [`giving_back::a_claim_that_nobody_uses_is_given_back`] |
//! | `clear-reserved-podgroup` | [`reservations::groups_keep_their_reservations_while_groups_do_not_count`], [`giving_back::a_claim_that_nobody_uses_is_given_back`] |
//! | `dont-clear-reserved-podgroup-feature-disabled` | [`reservations::groups_keep_their_reservations_while_groups_do_not_count`] |
//! | `dont-clear-reserved-structured` | [`giving_back::a_claim_that_nobody_uses_is_given_back`] |
//! | `clear-reserved-structured-deleted` | [`giving_back::a_claim_that_is_being_deleted_is_let_go`] |
//! | `structured-deleted` | [`giving_back::a_claim_that_is_being_deleted_is_let_go`] |
//! | `clear-reserved-when-done` | [`giving_back::a_claim_that_nobody_uses_is_given_back`]: without the finalizer the allocation stays |
//! | `remove-reserved` | [`giving_back::a_claim_that_nobody_uses_is_given_back`] |
//! | `delete-claim-when-done` | [`giving_back::the_claim_of_a_pod_that_is_done_is_deleted`] |
//! | `add-reserved` | [`reservations::a_pod_on_a_node_gets_its_allocated_claims_reserved`] |
//! | `add-reserved-podgroup` | [`groups::a_pod_shares_the_claims_of_its_group`] |
//! | `skip-add-reserved-podgroup-workloadresourceclaims-disabled` | [`groups::for_a_pod_of_a_group_that_does_not_count_nothing_is_made`] |
//! | `skip-add-reserved-podgroup-genericworkload-disabled` | [`groups::groups_count_where_the_feature_is_on`] (RC-17) |
//! | `remove-pod-reservation-with-non-pod-reservation-present` | [`giving_back::a_claim_that_nobody_uses_is_given_back`], [`reservations::a_reservation_goes_only_with_its_consumer`] |
//! | `flapping-resourceclaim-statuses` | [`entries::all_claims_of_a_pod_are_recorded_at_once`] |
//!
//! | the other tests of that file | here |
//! |---|---|
//! | `TestResourceClaimTemplateEventHandler`: two pods are created | [`syncs::a_pod_is_synced_when_that_does_or_tells_anything`]; `route_table` |
//! | — a template is created | `sync`: it wakes the pods of its namespace that name it, at once |
//! | — one of that name elsewhere | `sync`: it wakes the pod there, and no other |
//! | `TestResourceClaimEventHandler`: a claim is created, allocated, deallocated | `route_table`: the claim is woken; `sync`: the gauge at each scrape |
//! | — a label of it changes | `route_table` (RC-16: nobody is woken, for no rule reads it) |
//! | — it is deleted | `route_table`: no claim is woken; `sync`: the gauge |
//! | — the same with admin access, and for extended resources | `sync`: the gauge by `allocated`, `admin_access`, `source` |
//! | `TestEventHandlers`: `nothing` | none: nothing happens in it |
//! | — `new-podgroup-feature-disabled` | [`groups::groups_count_where_the_feature_is_on`] |
//! | — `new-podgroup` | [`groups::a_group_gets_claims_like_a_pod`] |
//! | — `new-podgroup-templated-claim-already-exists` | [`groups::a_group_gets_claims_like_a_pod`] |
//! | — `new-templated-claim-for-podgroup` | `route_table`: the claim is woken, the group has nothing to do |
//! | — `new-template-for-podgroup` | [`groups::a_group_gets_claims_like_a_pod`]; `sync`: the template wakes it |
//! | — `podgroup-claim-status-update` | `sync`: a group wakes its own pods that need work (RC-16: itself not, all is recorded) |
//! | — `podgroup-claim-status-update-feature-disabled` | [`groups::groups_count_where_the_feature_is_on`] |
//! | `TestClaimExists`: `found in mutation cache`, `found in underlay store`, `found in apiserver fallback`, `not found anywhere`, `owner check fails` | [`entries::an_entry_that_is_recorded_is_kept_or_asked_for`], [`entries::a_recorded_claim_that_is_gone_is_made_again`] |
//! | — `apiserver returns error` | `sync`: what cannot be asked is asked again, and nothing is made |
//! | `TestWorkqueue`: an error that is not worth a retry forgets the key | [`groups::for_a_pod_of_a_group_that_does_not_count_nothing_is_made`] (it waits); `controller-core/tests/event_loop` |
//! | `TestCreateClaimDoesNotMutateTemplate` | none: a template is read only |
//! | `TestGetAdminAccessMetricLabel`: `nil-claim`, `no-requests`, `admin-access-false`, `admin-access-true`, `prioritized-list`, `one-of-multiple-requests-with-admin-access-true`, `multiple-requests-admin-access-false-or-nil` | `src/view/wire.rs`: what a claim and a template ask for |
//! | `TestEnqueuePodExtendedResourceClaims` (until 1.36): `pod with no resource claims` | `src/view/wire/tests.rs::pods_without_claims_are_not_kept` |
//! | — `pod with regular resource claims only` | [`entries::an_entry_with_neither_field_is_an_error_that_is_retried`] |
//! | — `…, feature enabled, running pod` | [`giving_back::an_extended_resource_claim_is_given_back_like_any_other`] |
//! | — `…, feature enabled, completed pod`, `… failed pod`, `…, feature disabled`, `deleted pod with extended resource claim`, `pod with both regular and extended resource claims, completed` | [`giving_back::an_extended_resource_claim_is_given_back_like_any_other`], [`reservations::a_pod_is_done_when_nothing_of_it_runs_or_will`]; `route_table`: a pod that is done or deleted wakes its claims |
//!
//! | `test/integration/dra`, as far as this controller takes part | here |
//! |---|---|
//! | `ControllerManagerMetrics` | `sync`: creates are counted by status and admin access |
//! | `ShareResourceClaimSequentially` | [`reservations::a_pod_on_a_node_gets_its_allocated_claims_reserved`] (RC-8: one event when it is full), [`giving_back::a_claim_that_nobody_uses_is_given_back`]; `live`: more pods than a claim has room for |
//! | `WorkloadResourceClaims`, on | [`groups::a_pod_shares_the_claims_of_its_group`], [`reservations::groups_keep_their_reservations_while_groups_do_not_count`]; `live`: a group's claim outlives its pods |
//! | `WorkloadResourceClaims`, off | [`groups::groups_count_where_the_feature_is_on`]; `live`: one log line |
//! | `DRANodeAllocatableResources`, with a template | [`entries::an_entry_is_adopted_else_made`]; the rest of it is the scheduler's |
//! | `AdminAccess`, `PrioritizedList` | the API server's and the scheduler's; our side is [`entries::a_template_that_asks_for_what_is_off_is_refused`] |
//! | `ExplicitExtendedResource`, `ImplicitExtendedResource` | the scheduler's; our side is [`giving_back::an_extended_resource_claim_is_given_back_like_any_other`] |
//! | `PodGroup` | the scheduler's: the group of it has no claims, so [`groups::a_pod_shares_the_claims_of_its_group`] reserves for the pod |
//! | `APIDisabled`, `Convert`, `DeviceBindingConditions`, `EvictCluster…`, `FilterTimeout`, `InvalidResourceSlices`, `MaxResourceSlice`, `NoSchedule…`, `PartitionableDevices`, `Pod`, `PrioritizedListScoring`, `PublishResourceSlices`, `ResourceClaimDeviceStatus`, `ResourcePoolStatusRequest`, `ResourceSliceController`, `UsesAllResources` | none: this controller has no part in them |
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod departed;
mod entries;
mod giving_back;
mod groups;
mod reservations;
mod syncs;
