//! Several budgets over one pod, and pods that come and go by their labels.

use controller_testing::stories::StoryStage;
use serde_json::json;

use crate::budget::numbers;
use crate::stories::Budgets;

crate::told![
    every_budget_over_a_pod_is_true_and_the_overlap_is_reported,
    a_pod_that_is_relabelled_moves_from_budget_to_budget,
];

async fn every_budget_over_a_pod_is_true_and_the_overlap_is_reported(stage: StoryStage) {
    for name in ["first", "second"] {
        stage.pdb_of(name, "two", "minAvailable", json!(1)).await;
    }
    for name in ["red", "green", "blue"] {
        stage.pdb_of(name, "three", "minAvailable", json!(1)).await;
    }
    let controller = stage.start_leading(&[]).await;
    // The leader may still be filling its caches; nobody reports an overlap that begins by then.
    for pdb in ["first", "second", "red", "green", "blue"] {
        stage.until(pdb, numbers(0, 0, 1, 0)).await;
    }
    stage.some_pods("two", 3, None).await;
    stage.some_pods("three", 3, None).await;
    let overlaps = [
        ("two", ["first", "second"].as_slice()),
        ("three", &["blue", "green", "red"]),
    ];
    for (app, pdbs) in overlaps {
        let pod = format!("{app}-0");
        for pdb in pdbs {
            stage.until(pdb, numbers(2, 3, 1, 3)).await;
        }
        let names = pdbs.join(", ");
        let told = "so the eviction API refuses to evict it";
        stage
            .until_event(&format!(
                "{pod} Warning MultiplePodDisruptionBudgets Pod default/{pod} matches multiple PodDisruptionBudgets, {told}: {names}"
            ))
            .await;
        assert_eq!(stage.evict(&pod).await, 500);

        stage.ready(&pod, false).await;
        for pdb in pdbs {
            stage.until(pdb, numbers(1, 2, 1, 3)).await;
        }
        stage.relabel(&pod, "none").await;
        for pdb in pdbs {
            stage.until(pdb, numbers(1, 2, 1, 2)).await;
        }
        stage.relabel(&pod, app).await;
        stage.ready(&pod, true).await;
        for pdb in pdbs {
            stage.until(pdb, numbers(2, 3, 1, 3)).await;
        }
    }
    // One goes: the other two know nothing of it.
    stage.force_delete("PodDisruptionBudget", "red").await;
    stage.force_delete("Pod", "three-1").await;
    for pdb in ["green", "blue"] {
        stage.until(pdb, numbers(1, 2, 1, 2)).await;
    }
    controller.stop().await;
}

async fn a_pod_that_is_relabelled_moves_from_budget_to_budget(stage: StoryStage) {
    for app in ["here", "there"] {
        stage.pdb(app, "minAvailable", json!(1)).await;
    }
    let controller = stage.start_leading(&[]).await;
    stage.some_pods("here", 3, None).await;
    stage.until("here", numbers(2, 3, 1, 3)).await;
    stage.until("there", numbers(0, 0, 1, 0)).await;
    stage.until_event("there Normal NoPods ").await;

    stage.relabel("here-0", "there").await;
    stage.until("here", numbers(1, 2, 1, 2)).await;
    stage.until("there", numbers(0, 1, 1, 1)).await;
    stage.relabel("here-1", "there").await;
    stage.until("here", numbers(0, 1, 1, 1)).await;
    stage.until("there", numbers(1, 2, 1, 2)).await;
    // Each answers for those that it has now.
    assert_eq!(stage.evict("here-2").await, 429);
    assert_eq!(stage.evict("here-1").await, 201);
    stage.force_delete("Pod", "here-1").await;
    stage.until("there", numbers(0, 1, 1, 1)).await;
    stage.relabel("here-0", "here").await;
    stage.until("here", numbers(1, 2, 1, 2)).await;
    controller.stop().await;
}
