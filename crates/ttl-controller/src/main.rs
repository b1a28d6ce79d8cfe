//! The ttl-controller binary: see the library for what it does.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    controller_core::runtime::main::<ttl_controller::TtlController>()
}
