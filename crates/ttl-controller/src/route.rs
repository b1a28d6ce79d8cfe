//! Which keys a change of a node wakes.

use controller_core::meta::ObjectKey;

use crate::view::NodeView;

/// What a change asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wake {
    /// The node to look at.
    pub node: Option<ObjectKey>,
    /// Whether the number of nodes changed, so that the step may have.
    pub recount: bool,
}

/// What the change from `old` to `new` asks for; `None` on either side is "no such node".
pub fn wake(old: Option<&NodeView>, new: Option<&NodeView>) -> Wake {
    match (old, new) {
        (None, Some(new)) => Wake {
            node: Some(new.key.clone()),
            recount: true,
        },
        (Some(_), None) => Wake {
            node: None,
            recount: true,
        },
        (Some(old), Some(new)) if old.annotation != new.annotation => Wake {
            node: Some(new.key.clone()),
            recount: false,
        },
        (Some(_), Some(_)) | (None, None) => Wake::default(),
    }
}
