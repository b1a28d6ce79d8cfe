//! The objects that a controller's chart creates: account, roles and bindings as Helm renders them.
//!
//! They are read from the goldens of the charts, which CI compares with Helm's output.

use std::path::{Path, PathBuf};

use embedded_apiserver::{Server, User};
use local_control_plane::{ControlPlane, Leased, Options};
use serde_json::{Value, json};

use crate::kinds::create;
use crate::permissions::{GrantedPermission, until_in_force};
use crate::policies::{self, until_limited};

pub use crate::account::{NAMESPACE, account, user};

/// The API group of roles and bindings.
const RBAC: &str = "rbac.authorization.k8s.io";
/// The golden with the policies that limit the account's writes.
const POLICIES: &str = "admission.golden.yaml";
/// User with the permissions on the embedded server.
const USER: &str = "ours";
/// Kinds that grant permissions, and the accounts they grant them to.
const KINDS: [&str; 5] = [
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
];

/// A chart rendered with some values.
#[derive(Clone, Copy, Debug)]
pub struct Chart {
    controller: &'static str,
    golden: &'static str,
}

impl Chart {
    /// The chart of a controller, without any values.
    pub const fn of(controller: &'static str) -> Self {
        Self {
            controller,
            golden: "golden.yaml",
        }
    }

    /// The chart with the values of another golden in `charts/tests/<controller>/`.
    #[must_use]
    pub const fn rendered_as(self, golden: &'static str) -> Self {
        Self { golden, ..self }
    }

    /// The name of the controller.
    pub const fn controller(self) -> &'static str {
        self.controller
    }

    /// A control plane with the account, roles, bindings and the policies that limit the account's writes, all of it in
    /// force; no controller needs what these refuse. Also returns the kubeconfig with a token of the account.
    pub(crate) async fn lease(self, options: Options) -> (Leased, PathBuf) {
        let prepared = format!("{} {}", self.controller, self.golden);
        let create = async |control_plane: &ControlPlane| {
            let objects = self.objects();
            for object in objects.into_iter().filter(gives_permissions) {
                create(&control_plane.client(), object).await;
            }
            policies::create(control_plane, self.limits()).await;
        };
        let control_plane = Leased::take(options, &prepared, create).await.unwrap();
        let kubeconfig = self.installed(&control_plane).await;
        // An account that may not write at all is refused before any policy is asked.
        if self
            .permissions()
            .iter()
            .any(|permission| permission.verb == "create")
        {
            until_limited(&control_plane, &user(self.controller)).await;
        }
        (control_plane, kubeconfig)
    }

    /// The policies that limit the account's writes: its own, or those of the chart without any values.
    fn limits(self) -> Vec<Value> {
        let is_policy = |object: &Value| {
            object["kind"]
                .as_str()
                .is_some_and(|kind| kind.starts_with("ValidatingAdmission"))
        };
        let mut own = self.objects();
        own.retain(is_policy);
        if own.is_empty() {
            own = self.rendered_as(POLICIES).objects();
        }
        own
    }

    /// The kubeconfig with a token of the account of an installed chart, once its permissions are in force.
    pub async fn installed(self, control_plane: &ControlPlane) -> PathBuf {
        until_in_force(control_plane, self.controller, &self.permissions(), true).await;
        self.token(control_plane).await
    }

    /// Creates the roles and bindings that `helm test` adds for a while.
    pub async fn install_for_test(self, control_plane: &ControlPlane) {
        let mut objects = self.rendered();
        objects.retain(is_for_test);
        for object in objects.into_iter().filter(gives_permissions) {
            create(&control_plane.client(), object).await;
        }
    }

    /// A user of the embedded server with the permissions in the whole cluster. From now on the server refuses, for
    /// every user, what no permission allows.
    pub fn install_on(self, server: &Server) -> User {
        let role = json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": { "name": self.controller },
            "rules": self.rules(),
        });
        let binding = json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": { "name": self.controller },
            "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": self.controller },
            "subjects": [{ "apiGroup": RBAC, "kind": "User", "name": USER }],
        });
        for object in [role, binding] {
            server.insert(object).unwrap();
        }
        let user = server.add_user(USER, &[], "token");
        server.enforce_rbac();
        user
    }

    /// A kubeconfig with another token of the account, as for another pod.
    pub async fn token(self, control_plane: &ControlPlane) -> PathBuf {
        let account = account(self.controller);
        let kubeconfig = control_plane.service_account_kubeconfig(NAMESPACE, &account);
        kubeconfig.await.unwrap()
    }

    /// The rules of the chart's `ClusterRole`: permissions in the whole cluster.
    pub fn rules(self) -> Value {
        self.rules_of("ClusterRole")
    }

    /// All permissions that the chart grants, including those on the Lease, which an observer has not.
    pub fn permissions(self) -> Vec<GrantedPermission> {
        let mut permissions = GrantedPermission::of_rules(&self.rules(), None);
        permissions.extend(GrantedPermission::of_rules(
            &self.rules_of("Role"),
            Some(NAMESPACE),
        ));
        permissions
    }

    fn rules_of(self, kind: &str) -> Value {
        let mut objects = self.objects();
        let role = objects.iter_mut().find(|object| object["kind"] == kind);
        role.map_or(json!([]), |role| role["rules"].take())
    }

    /// All installed objects, without those that `helm test` adds for a while.
    fn objects(self) -> Vec<Value> {
        let mut objects = self.rendered();
        objects.retain(|object| !is_for_test(object));
        objects
    }

    fn rendered(self) -> Vec<Value> {
        let charts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/tests");
        let text = std::fs::read_to_string(charts.join(self.controller).join(self.golden)).unwrap();
        serde_saphyr::from_multiple(&text).unwrap()
    }
}

fn gives_permissions(object: &Value) -> bool {
    KINDS.iter().any(|kind| object["kind"] == *kind)
}

fn is_for_test(object: &Value) -> bool {
    object["metadata"]["annotations"]["helm.sh/hook"] == "test"
}
