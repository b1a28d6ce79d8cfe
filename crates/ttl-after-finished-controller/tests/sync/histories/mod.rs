//! Histories drawn from seeds: `cargo xtask fault --suite ttl-after-finished-controller --seed N` repeats one.

mod ledger;
mod sabotage;
mod suite;

use harness::run_of;
use ttl_after_finished_controller::TtlAfterFinishedController;

use suite::Jobs;

harness::histories!(Jobs::new(run_of::<TtlAfterFinishedController>()));
