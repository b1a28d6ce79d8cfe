//! The resourceclaim-controller binary: see the library for what it does.

use std::process::ExitCode;

fn main() -> ExitCode {
    controller_runtime::runtime::main::<resourceclaim_controller::ResourceClaimController>()
}
