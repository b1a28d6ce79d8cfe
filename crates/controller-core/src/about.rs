//! What a binary says about itself.

pub use crate::about;

/// Commit of the build: `$BUILD_COMMIT` at build time, else in release builds the checked-out commit, else `unknown`.
pub const COMMIT: &str = env!("BUILD_COMMIT");

/// Name, description and version of a binary, for its help and logs.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Name of the binary, such as `ttl-controller`.
    pub name: &'static str,
    /// One line: what the controller does.
    pub about: &'static str,
    /// Version of the crate, from its manifest.
    pub version: &'static str,
    /// Commit of the build, see [`COMMIT`].
    pub commit: &'static str,
}

/// [`About`] the calling crate, from its manifest. An example has no manifest and passes name and description.
#[macro_export]
macro_rules! about {
    () => {
        $crate::about!(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_DESCRIPTION"))
    };
    ($name:expr, $about:expr) => {
        $crate::about::About {
            name: $name,
            about: $about,
            version: env!("CARGO_PKG_VERSION"),
            commit: $crate::about::COMMIT,
        }
    };
}
