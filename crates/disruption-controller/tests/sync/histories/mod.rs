//! Histories drawn from seeds: `cargo xtask fault --suite disruption-controller --seed N` repeats one.
//!
//! ```text
//! steps ── world              what happens, drawn; taken
//! ledger ── tap               what the rules make of what there is; what a process was shown of it
//! suite ── sabotage           what may be written, and what must have been; bugs that must show
//! ```

mod ledger;
mod sabotage;
mod steps;
mod suite;
mod tap;
mod world;

use disruption_controller::DisruptionController;
use harness::run_of;

use suite::Budgets;

harness::histories!(Budgets::new(run_of::<DisruptionController>()));
