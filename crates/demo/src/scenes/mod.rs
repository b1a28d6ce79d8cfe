//! The scenes, in playing order: one file each.

mod blockers;
mod brake;
mod clean_up;
mod disruption;
mod resourceclaim;
mod taint_eviction;
mod ttl;
mod ttl_after_finished;

use kube::discovery::ApiResource;

pub(crate) use self::clean_up::POLICIES;
use crate::scene::Scene;

fn all() -> [Scene; 8] {
    [
        ttl::scene(),
        taint_eviction::scene(),
        brake::scene(),
        ttl_after_finished::scene(),
        clean_up::scene(),
        disruption::scene(),
        blockers::scene(),
        resourceclaim::scene(),
    ]
}

/// Names of all controllers with scenes.
pub(crate) fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = all().iter().map(|scene| scene.controller).collect();
    names.dedup();
    names
}

/// The scenes of the controllers with these names; all if empty.
pub(crate) fn chosen(names: &[String]) -> Vec<Scene> {
    let is_chosen = |scene: &Scene| names.is_empty() || names.iter().any(|name| name == scene.controller);
    all().into_iter().filter(is_chosen).collect()
}

/// Flags of this controller, in all of its scenes.
pub(crate) fn flags(controller: &str) -> &'static [&'static str] {
    match controller {
        "taint-eviction-controller" => &brake::FLAGS,
        _ => &[],
    }
}

/// Kinds of the objects in all scenes, without duplicates.
pub(crate) fn makes() -> Vec<ApiResource> {
    let mut kinds: Vec<ApiResource> = Vec::new();
    for kind in all().into_iter().flat_map(|scene| scene.makes) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn played(names: &[&str]) -> Vec<&'static str> {
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        chosen(&names).iter().map(|scene| scene.controller).collect()
    }

    #[test]
    fn scenes_are_played_in_their_own_order_whatever_the_order_of_their_names() {
        assert_eq!(
            played(&[]),
            [
                "ttl-controller",
                "taint-eviction-controller",
                "taint-eviction-controller",
                "ttl-after-finished-controller",
                "ttl-after-finished-controller",
                "disruption-controller",
                "disruption-controller",
                "resourceclaim-controller"
            ]
        );
        assert_eq!(
            played(&[
                "ttl-after-finished-controller",
                "ttl-controller",
                "ttl-controller"
            ]),
            [
                "ttl-controller",
                "ttl-after-finished-controller",
                "ttl-after-finished-controller"
            ]
        );
    }

    #[test]
    fn what_scenes_make_is_removed_kind_by_kind() {
        let kinds: Vec<_> = makes().into_iter().map(|kind| kind.plural).collect();
        assert_eq!(
            kinds,
            [
                "nodes",
                "pods",
                "deployments",
                "poddisruptionbudgets",
                "jobs",
                "resourceclaimtemplates",
                "resourceclaims"
            ]
        );
    }
}
