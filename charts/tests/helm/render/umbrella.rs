use super::*;

#[test]
#[ignore = "needs helm: cargo xtask test"]
fn the_umbrella_renders_what_the_charts_do_that_are_enabled() {
    let values = "replicas=3,image.repository=ghcr.io/somebody/lamps";
    let global = "--set=global.imageRegistry=mirror.example";
    let mut alone = Vec::new();
    let mut enabled = vec!["c".to_owned(), chart(UMBRELLA), global.to_owned()];
    for name in &CHARTS[..2] {
        alone.extend(documents(&["c", &chart(name), global, "--set", values]));
        for value in format!("enabled=true,{values}").split(',') {
            enabled.push(format!("--set={name}.{value}"));
        }
    }
    alone.sort();
    let enabled: Vec<_> = enabled.iter().map(String::as_str).collect();
    let together = documents(&enabled);
    assert_eq!(together, alone);
    let image = "image: mirror.example/somebody/lamps:";
    let shown = together.iter().filter(|document| document.contains(image));
    // A Deployment and a test pod of each of the two charts.
    assert_eq!(shown.count(), 4);
}

#[test]
#[ignore = "needs helm: cargo xtask test"]
fn a_chart_that_was_not_released_wants_to_be_told_of_an_image() {
    for name in CHARTS {
        let output = run_helm(&["template", "a", &chart(name)]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            errors.contains("image.repository: must be set")
                && errors.contains(&format!("the image of {name}")),
            "{name}: {errors}"
        );
    }
}
