//! The disruption-controller binary: see the library for what it does.

use std::process::ExitCode;

fn main() -> ExitCode {
    controller_runtime::runtime::main::<disruption_controller::DisruptionController>()
}
