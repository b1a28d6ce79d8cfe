//! Histories drawn from seeds: `cargo xtask fault --suite ttl-controller --seed N` repeats one.

mod sabotage;
mod suite;

use harness::run_of;
use ttl_controller::TtlController;

use suite::Nodes;

harness::histories!(Nodes::new(run_of::<TtlController>()));
