//! The users who send requests.

/// Group of all authenticated users.
pub(super) const AUTHENTICATED: &str = "system:authenticated";
/// Group whose members may do everything.
const MASTERS: &str = "system:masters";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// A user as authentication identifies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Name in RBAC rules, e.g. `alice` or `system:serviceaccount:default:robot`.
    pub name: String,
    /// Distinguishes the user from earlier or later ones of the same name.
    pub uid: String,
    /// Groups of the user, including `system:authenticated`.
    pub groups: Vec<String>,
}

impl User {
    /// The user `name` in `groups` and in the group of all authenticated users.
    pub fn new(name: &str, groups: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            uid: name.to_owned(),
            groups: groups
                .iter()
                .chain([&AUTHENTICATED])
                .map(ToString::to_string)
                .collect(),
        }
    }

    /// The service account `namespace/name` with this uid.
    pub fn service_account(namespace: &str, name: &str, uid: &str) -> Self {
        let user = Self::new(
            &format!("system:serviceaccount:{namespace}:{name}"),
            &[
                "system:serviceaccounts",
                &format!("system:serviceaccounts:{namespace}"),
            ],
        );
        Self {
            uid: uid.to_owned(),
            ..user
        }
    }

    /// A user who may do everything.
    pub fn admin() -> Self {
        Self::new("admin", &[MASTERS])
    }

    /// The user of requests without credentials.
    pub fn anonymous() -> Self {
        Self {
            name: "system:anonymous".to_owned(),
            uid: String::new(),
            groups: vec![UNAUTHENTICATED.to_owned()],
        }
    }

    pub(super) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|of| of == group)
    }

    pub(super) fn may_all(&self) -> bool {
        self.is_in(MASTERS)
    }
}
