use super::*;

/// The Deployment of ttl-controller, rendered by Helm.
fn deployment(args: &[&str]) -> Value {
    let chart = chart("ttl-controller");
    let only = [
        "template",
        "a",
        &chart,
        "--show-only=templates/common/deployment.yaml",
    ];
    serde_saphyr::from_str(&said(helm(&[&only, args].concat()))).unwrap()
}

#[test]
#[ignore = "needs helm: cargo xtask test"]
fn pods_prefer_the_control_plane_where_there_is_one_and_else_go_where_they_went() {
    let role = json!({"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"});
    let pods = |set: &str| deployment(&[set])["spec"]["template"]["spec"].clone();
    let by_default = pods("--set=replicas=2");
    assert_eq!(
        by_default["affinity"]["nodeAffinity"],
        json!({"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "preference": {"matchExpressions": [role]}}]})
    );
    assert_eq!(by_default["tolerations"][0], role);
    // Taints of failed or uninitialized nodes keep the pods away as before.
    assert_eq!(by_default["tolerations"].as_array().unwrap().len(), 3);

    let own = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].key=a";
    let affinity = &pods(&format!("--set={own}"))["affinity"]["nodeAffinity"];
    assert_eq!(affinity.as_object().unwrap().len(), 2, "{affinity}");
    let own = "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight=7";
    let instead = &pods(&format!("--set={own}"))["affinity"]["nodeAffinity"];
    assert_eq!(
        *instead,
        json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7}]})
    );

    let required = pods("--set=controlPlane=require");
    assert_eq!(
        required["affinity"]["nodeAffinity"],
        json!({"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [role]}]}})
    );
    assert_eq!(required["tolerations"].as_array().unwrap().len(), 6);
    let nowhere_special = pods("--set=controlPlane=none");
    assert!(nowhere_special["affinity"].is_null() && nowhere_special["tolerations"].is_null());
}
