//! The scenes, one file a controller, in the order in which they are played.

mod ttl;

use crate::scene::Scene;

/// All scenes.
pub(crate) fn all() -> Vec<Box<dyn Scene>> {
    vec![Box::new(ttl::Ttl)]
}
