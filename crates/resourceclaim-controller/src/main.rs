//! The resourceclaim-controller binary: see the library for what it does.

use std::process::ExitCode;

fn main() -> ExitCode {
    controller_core::runtime::main::<resourceclaim_controller::ResourceClaimController>()
}
