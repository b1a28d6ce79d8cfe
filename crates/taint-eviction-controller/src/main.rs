//! The taint-eviction-controller binary: see the library for what it does.

use std::process::ExitCode;

fn main() -> ExitCode {
    controller_runtime::runtime::main::<taint_eviction_controller::TaintEvictionController>()
}
