//! Bugs of a process that the simulation must find for every controller.

/// The tests that drawn runs find each bug of a process: `$with` gives the model with this [`ProcessBug`](super::ProcessBug).
#[macro_export]
macro_rules! process_bugs_are_found {
    ($with:expr, $acts:expr) => {
        #[test]
        fn a_dry_run_that_writes_is_found() {
            let bug = $crate::sim::ProcessBug::WritesInDryRun;
            $crate::sim::assert_drawn(&$with(bug), $acts, "a dry run sends");
        }

        #[test]
        fn a_process_that_does_not_notice_that_another_leads_is_found() {
            let bug = $crate::sim::ProcessBug::KeepsItsTerm;
            $crate::sim::assert_drawn(&$with(bug), $acts, "sent without the term");
        }
    };
}
