//! Clean-up policies.

mod brake;
mod grace;
mod left;
mod preview;
mod reload;
mod support;
mod told;
