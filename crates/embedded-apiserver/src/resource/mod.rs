//! All that the server knows about a kind; the kinds themselves are in [`table`].

mod subresource;
pub(crate) mod table;

use serde_json::Value;

pub(super) use subresource::Target;
pub(crate) use subresource::{Action, Scale, Selector};

use crate::schema::{Schema, Types};

pub(super) use table::SERVED;

/// A resource: what the server knows about a kind, and by which a test names its objects. One that a custom resource
/// definition brings can be named by [`Self::cluster`] or [`Self::namespaced`].
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a rule of its own")]
pub struct Resource {
    /// API group, empty for the core group.
    pub group: &'static str,
    /// API version within the group, e.g. `v1`.
    pub version: &'static str,
    /// Kind, e.g. `Node`.
    pub kind: &'static str,
    /// Plural name in paths, e.g. `nodes`.
    pub plural: &'static str,
    /// Other names by which `kubectl` knows it, e.g. `no`.
    pub(crate) short_names: &'static [&'static str],
    /// Whether objects live in namespaces.
    pub(crate) scope: Scope,
    /// What writes to the main resource do with `status`.
    pub(crate) status: StatusRule,
    /// Whether `metadata.generation` counts changes outside `metadata` and `status`.
    pub(crate) generation: bool,
    /// Whether an update may leave out `metadata.resourceVersion`.
    pub(crate) unconditional_update: bool,
    /// Whether an update of an object that is not there creates it.
    pub(crate) create_on_update: bool,
    /// Selectable fields beside `metadata.name` and `metadata.namespace`: path, value when absent.
    pub(crate) fields: &'static [(&'static str, &'static str)],
    /// The types of a custom resource that brings them.
    pub(crate) types: Option<&'static Types>,
    /// The resource whose storage this one shows under other field names.
    pub(crate) alias: Option<Alias>,
    /// Fields of the metadata that a write of `/status` leaves alone.
    pub(crate) status_keeps: &'static [&'static str],
    /// What `/scale` shows, where there is one.
    pub(crate) scale: Option<Scale>,
    /// Subresources that do something, by name.
    pub(crate) actions: &'static [(&'static str, Action)],
    /// What stands behind it.
    pub(crate) source: Source,
    /// What a delete that does not say so does about dependents.
    pub(crate) dependents: Dependents,
    /// Whether a delete is answered with the deleted object rather than a `Status`.
    pub(crate) returned_when_deleted: bool,
}

/// What stands behind a resource.
///
/// Objects of all but the built-in ones have no Go type: bodies must name their kind, nulls and empty lists
/// are kept, and there is no strategic merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The API server itself.
    BuiltIn,
    /// A custom resource definition that the server stores.
    Definition,
}

/// Where objects of a resource live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// In the cluster as a whole.
    Cluster,
    /// In namespaces.
    Namespaced,
}

/// What writes to the main resource do with `status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusRule {
    /// There is no status subresource: `status` is a field like any other.
    Ordinary,
    /// A create keeps what it brings, later writes leave it alone.
    SetByCreate,
    /// Only the subresource writes it.
    SubresourceOnly,
}

/// What a delete that does not say so does about dependents (`DefaultGarbageCollectionPolicy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependents {
    /// They are deleted after the object.
    Deleted,
    /// They stay.
    Orphaned,
    /// There are none: the garbage collector leaves the kind alone.
    Unsupported,
}

/// A second view of another resource's objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alias {
    /// The resource whose form is stored.
    pub(crate) of: &'static Resource,
    /// Top-level fields: stored name, served name.
    pub(crate) renames: &'static [(&'static str, &'static str)],
}

/// The metadata that clients write.
pub(super) const USER_METADATA: &[&str] = &["annotations", "finalizers", "labels", "ownerReferences"];

impl Resource {
    /// A cluster-scoped resource with the defaults of a custom resource without subresources.
    pub const fn cluster(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        Self {
            group,
            version,
            kind,
            plural,
            short_names: &[],
            scope: Scope::Cluster,
            status: StatusRule::Ordinary,
            generation: false,
            unconditional_update: true,
            create_on_update: false,
            fields: &[],
            types: None,
            alias: None,
            status_keeps: &[],
            scale: None,
            actions: &[],
            source: Source::BuiltIn,
            dependents: Dependents::Deleted,
            returned_when_deleted: false,
        }
    }

    /// A namespaced resource with the same defaults.
    pub const fn namespaced(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        let mut resource = Self::cluster(group, version, kind, plural);
        resource.scope = Scope::Namespaced;
        resource
    }

    /// Whether this is the same resource, in whatever version.
    pub(crate) fn is(&self, other: &Self) -> bool {
        (self.group, self.plural) == (other.group, other.plural)
    }

    /// `version` in the core group, else `group/version`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// `plural.group`, the name that error messages use.
    pub(crate) fn qualified_plural(&self) -> String {
        qualify(self.plural, self.group)
    }

    /// `Kind.group`, the name that validation messages use.
    pub(crate) fn qualified_kind(&self) -> String {
        qualify(self.kind, self.group)
    }

    /// Whether objects live in namespaces.
    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// Whether its objects have no Go type.
    pub(crate) fn is_custom(&self) -> bool {
        self.source != Source::BuiltIn
    }

    /// Whether there is a status subresource.
    pub(crate) fn has_status(&self) -> bool {
        self.status != StatusRule::Ordinary
    }

    /// The resource in whose form and place objects are stored.
    pub(super) fn stored(&'static self) -> &'static Self {
        self.alias.map_or(self, |alias| alias.of)
    }

    /// What its objects look like.
    pub(super) fn schema(&self) -> Schema {
        Schema::of(self.types, &self.api_version(), self.kind)
    }

    /// Renames the top-level fields of a stored object to what this resource calls them.
    pub(super) fn to_served(&self, object: &mut Value) {
        for (stored, served) in self.renames() {
            rename(object, stored, served);
        }
    }

    /// The reverse of [`Self::to_served`].
    pub(super) fn to_stored(&self, object: &mut Value) {
        for (stored, served) in self.renames() {
            rename(object, served, stored);
        }
    }

    fn renames(&self) -> &'static [(&'static str, &'static str)] {
        self.alias.map_or(&[], |alias| alias.renames)
    }
}

/// `name.group`, and the name alone in the core group.
pub(super) fn qualify(name: &str, group: &str) -> String {
    if group.is_empty() {
        name.to_owned()
    } else {
        format!("{name}.{group}")
    }
}

fn rename(object: &mut Value, from: &str, to: &str) {
    if let Some(fields) = object.as_object_mut()
        && let Some(value) = fields.remove(from)
    {
        fields.insert(to.to_owned(), value);
    }
}
