//! Verdicts against a search: every state that the pods of a world can be in, judged by the rules of the controller and
//! of the Eviction API alone.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::scene::{Scene, key, now};
use crate::decide::decide;
use crate::drain::{Flags, Outlook, Reason, Verdict, evicts, judge};
use crate::view::Amount;

/// Most pods of a controller.
const MOST: usize = 3;

/// The line of a budget, a workload or a pod.
fn scene() -> impl Strategy<Value = Vec<String>> {
    let kind = prop_oneof![
        Just("ReplicaSet"),
        Just("StatefulSet"),
        Just("Widget"),
        Just("Job")
    ];
    let state = prop_oneof![
        4 => Just(""),
        2 => Just(", not ready"),
        1 => Just(", pending"),
        1 => Just(", over"),
        1 => Just(", deleted until 12:00:20"),
        1 => Just(", app other"),
    ];
    let owned = (kind, 0..=MOST, prop::collection::vec(state.clone(), 0..=MOST));
    let amount = prop_oneof![
        (0..5_i64).prop_map(|pods| pods.to_string()),
        prop_oneof![Just(0), Just(1), Just(34), Just(50), Just(99), Just(100)]
            .prop_map(|percent| format!("{percent}%")),
    ];
    let field = prop_oneof![Just("minAvailable"), Just("maxUnavailable")];
    let policy = prop_oneof![3 => Just(""), 1 => Just(", AlwaysAllow")];
    let extra =
        prop_oneof![8 => Just(None), 1 => Just(Some("budget more minAvailable 0, for all".to_owned()))];
    let naked = prop::collection::vec(state, 0..=2);
    (
        prop::collection::vec(owned, 0..=2),
        naked,
        (field, amount, policy),
        extra,
        prop::option::of(Just("counts Job.batch".to_owned())),
    )
        .prop_map(|(owners, naked, (field, amount, policy), extra, counts)| {
            let mut lines = vec![format!("budget web {field} {amount}{policy}")];
            lines.extend(extra.into_iter().chain(counts));
            for (number, (kind, wants, pods)) in owners.into_iter().enumerate() {
                lines.push(format!("{kind} o{number} wants {wants}"));
                let pods = pods.iter().enumerate();
                lines
                    .extend(pods.map(|(at, state)| format!("pod p{number}-{at} of {kind} o{number}{state}")));
            }
            let naked = naked.iter().enumerate();
            lines.extend(naked.map(|(at, state)| format!("pod n-{at}{state}")));
            lines
        })
}

fn app(pod: &Value) -> &Value {
    &pod["metadata"]["labels"]["app"]
}

fn is_deleted(pod: &Value) -> bool {
    pod["metadata"].get("deletionTimestamp").is_some()
}

fn is_over(pod: &Value) -> bool {
    pod["status"]["phase"] == "Succeeded"
}

fn running(pod: &Value, ready: bool) -> Value {
    let mut pod = pod.clone();
    let ready = if ready { "True" } else { "False" };
    pod["status"] = json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": ready }] });
    pod
}

/// Every world to which the kubelets, the scheduler and the controllers of the pods can lead: pods that are being
/// deleted go or stay, a controller makes pods until it has what it wants, and each pod is ready or not. `kept` stays,
/// ready or as it is.
fn reachable(scene: &Scene, kept: &str) -> Vec<Scene> {
    let mut worlds = vec![Scene {
        pods: Vec::new(),
        ..scene.clone()
    }];
    let with = |worlds: Vec<Scene>, choices: &[Option<Value>]| {
        let each = |world: &Scene, choice: &Option<Value>| {
            let mut world = world.clone();
            world.pods.extend(choice.clone());
            world
        };
        worlds
            .iter()
            .flat_map(|world| choices.iter().map(move |choice| each(world, choice)))
            .collect()
    };
    for pod in &scene.pods {
        let choices = if pod["metadata"]["name"] == kept {
            vec![Some(pod.clone()), Some(running(pod, true))]
        } else if is_deleted(pod) {
            vec![Some(pod.clone()), None]
        } else if is_over(pod) || app(pod) != "web" {
            vec![Some(pod.clone())]
        } else {
            vec![Some(running(pod, true)), Some(running(pod, false))]
        };
        worlds = with(worlds, &choices);
    }
    for (kind, workload) in &scene.workloads {
        if kind == "Job" {
            continue;
        }
        let owned =
            |pod: &&Value| pod["metadata"]["ownerReferences"][0]["uid"] == workload["metadata"]["uid"];
        let live = { scene.pods.iter().filter(owned) }.filter(|pod| !is_deleted(pod) && !is_over(pod));
        let wanted = usize::try_from(workload["spec"]["replicas"].as_i64().unwrap()).unwrap();
        // Only a controller that has had pods of the budget is one of its controllers.
        let of_budget = { scene.pods.iter().filter(owned) }.find(|pod| app(pod) == "web");
        let Some(model) = of_budget else { continue };
        for number in live.count()..wanted {
            let name = workload["metadata"]["name"].as_str().unwrap();
            let mut pod = running(model, true);
            pod["metadata"]["name"] = json!(format!("new-{name}-{number}"));
            pod["metadata"]["uid"] = json!(format!("new-{name}-{number}"));
            pod["metadata"]
                .as_object_mut()
                .unwrap()
                .remove("deletionTimestamp");
            worlds = with(worlds, &[None, Some(pod)]);
        }
    }
    worlds
}

/// Whether the Eviction API takes the pod in this world, once the controller has written the statuses.
fn goes(scene: &Scene, pod: &str) -> bool {
    scene.judged(|world| {
        let pod = *world.pods.get(&key(pod)).unwrap();
        let mut pdbs = Vec::new();
        for (_, budget) in world.judged(world.budgets_of(&pod.pod), now())? {
            let named = |_: &[&_]| Some(Arc::from("p"));
            let decision = decide(&budget.situation, &budget.scales, named, now());
            let then = decision
                .plan
                .map(|plan| plan.applied_to(&budget.situation.pdb, None));
            pdbs.push(then.unwrap_or_else(|| (*budget.situation.pdb).clone()));
        }
        Ok(evicts(&pod.pod, &pdbs.iter().collect::<Vec<_>>()).is_ok())
    })
}

/// Verdict and reason of a pod.
fn verdict(scene: &Scene, pod: &str) -> (Verdict, Reason) {
    scene.judged(|world| {
        let pod = *world.pods.get(&key(pod)).unwrap();
        let judged = world.judged(world.budgets_of(&pod.pod), now())?;
        let found = judge(pod, &judged.values().collect::<Vec<_>>(), Flags::default(), now());
        Ok((found.verdict, found.reason))
    })
}

proptest! {
    #[test]
    fn no_state_lets_a_pod_go_that_never_goes(lines in scene()) {
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        let scene = Scene::of(&lines);
        for pod in &scene.pods {
            let name = pod["metadata"]["name"].as_str().unwrap();
            let (verdict, _) = verdict(&scene, name);
            prop_assert_eq!(goes(&scene, name), verdict == Verdict::Now, "{}: {:?}", name, lines);
            if verdict == Verdict::Now {
                continue;
            }
            let way = reachable(&scene, name).into_iter().find(|world| goes(world, name));
            prop_assert_eq!(way.is_some(), verdict == Verdict::Waits, "{}: {:?}\n{:#?}", name, lines, way);
        }
    }

    #[test]
    fn the_value_of_the_fix_works(lines in scene()) {
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        let scene = Scene::of(&lines);
        let fixed = scene.judged(|world| {
            let judged = world.judged([key("web")], now())?;
            let budget = &judged[&key("web")];
            let Outlook::Never(_, best) = &budget.outlook else { return Ok(vec![]) };
            let mut fixes = Vec::new();
            // Of no pod that could go nothing can be said.
            if best.healthy > 0 {
                fixes.push(("minAvailable", best.min_available()));
                fixes.extend(best.max_unavailable().map(|most| ("maxUnavailable", most)));
            }
            Ok(fixes)
        });
        for (field, value) in fixed {
            let mut then = scene.clone();
            let spec = then.pdbs[0]["spec"].as_object_mut().unwrap();
            spec.retain(|name, _| !matches!(name.as_str(), "minAvailable" | "maxUnavailable"));
            spec.insert(field.to_owned(), json!(value));
            then.judged(|world| {
                let judged = world.judged([key("web")], now())?;
                let budget = &judged[&key("web")];
                let asks = (&budget.situation.pdb.min_available, &budget.situation.pdb.max_unavailable);
                assert!(matches!(asks, (Some(Amount::Int(_)), None) | (None, Some(Amount::Int(_)))));
                assert!(matches!(budget.outlook, Outlook::Allows(_)), "{field} {value}: {lines:?} {budget:?}");
                Ok(())
            });
        }
    }
}
