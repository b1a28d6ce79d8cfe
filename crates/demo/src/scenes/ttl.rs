//! ttl-controller: the size of the cluster decides how long kubelets may cache.

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use serde_json::json;

use crate::counts::{Counted, Tally, Whose};
use crate::scene::{Scene, Step, kind};
use crate::stage::{nodes, patch_node};

const TTL: &str = "node.alpha.kubernetes.io/ttl";
/// The controller's metric of counted nodes.
const COUNTED: &str = "ttl_controller_nodes";

pub(crate) fn scene() -> Scene {
    Scene {
        controller: "ttl-controller",
        shows: "It tells each kubelet, by the number of nodes, how long it may cache secrets and config maps.",
        kubectl: "get nodes -w",
        counted: Counted {
            title: "nodes by TTL",
            resource: kind::<Node>(),
            whose: Whose::Everybodys,
            by: |node, _| {
                let ttl = node.annotations().get(TTL);
                Tally::plain(ttl.map_or_else(|| "no TTL".to_owned(), |seconds| format!("{seconds} s")))
            },
        },
        makes: vec![kind::<Node>()],
        steps: steps(),
    }
}

fn steps() -> Vec<Step> {
    vec![
        Step::new("90 nodes")
            .says("No controller runs yet, so nobody tells their kubelets how long to cache.")
            .does(nodes(90))
            .expects_objects(90),
        Step::new("the controller starts")
            .says("Up to 100 nodes a kubelet need not cache at all: each node is told 0 s.")
            .expects([(90, "0 s")])
            .seen_as(COUNTED, 90)
            .writes(90..=90),
        // The first ten new nodes may get 0 s before the 101st exists.
        Step::new("120 nodes")
            .says("More than 100: every node is rewritten at once, to 15 s.")
            .does(nodes(120))
            .expects([(120, "15 s")])
            .seen_as(COUNTED, 120)
            .writes(120..=130),
        Step::new("95 nodes")
            .says("Inside the overlap of the two steps, 90 to 100: nothing is written, so nothing flips to and fro.")
            .does(nodes(95))
            .expects([(95, "15 s")])
            .seen_as(COUNTED, 95)
            .writes(0..=0),
        // The number of nodes that get 15 s first depends on timing.
        Step::new("520 nodes")
            .says("More than 500: 30 s for all.")
            .does(nodes(520))
            .expects([(520, "30 s")])
            .seen_as(COUNTED, 520),
        Step::new("80 nodes")
            .says("Fewer than 450, fewer than 90, two steps down: everybody is told 0 s.")
            .does(nodes(80))
            .expects([(80, "0 s")])
            .seen_as(COUNTED, 80),
        Step::new("a stray value")
            .says("Somebody writes 999 s to one node: just that node is put right.")
            .does(patch_node(7, json!({"metadata": {"annotations": {TTL: "999"}}})))
            .expects([(80, "0 s")])
            .writes(1..=1),
    ]
}
