//! The ttl-controller binary: see the library for what it does.

use std::process::ExitCode;

fn main() -> ExitCode {
    controller_runtime::runtime::main::<ttl_controller::TtlController>()
}
