//! Clean-up policies.

mod brake;
mod grace;
mod left;
mod reload;
mod support;
mod told;
