//! Properties of a kind that the server needs; the kinds themselves are in [`table`].

mod subresource;
pub(crate) mod table;

use serde_json::Value;

pub(super) use subresource::Target;
pub(crate) use subresource::{Action, Scale, Selector};

use crate::schema::{Schema, Types};

pub(super) use table::SERVED;

/// A resource: identifies a kind for tests, and holds what the server knows about it. Use [`Self::cluster`] or
/// [`Self::namespaced`] for a resource that a custom resource definition adds.
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
    /// Short names for `kubectl`, e.g. `no`.
    pub(crate) short_names: &'static [&'static str],
    pub(crate) scope: Scope,
    /// The effect of writes to the main resource on `status`.
    pub(crate) status: StatusRule,
    /// True if `metadata.generation` counts changes outside `metadata` and `status`.
    pub(crate) generation: bool,
    /// True if an update may omit `metadata.resourceVersion`.
    pub(crate) unconditional_update: bool,
    /// True if an update of an object that does not exist creates it.
    pub(crate) create_on_update: bool,
    /// Selectable fields besides `metadata.name` and `metadata.namespace`: path, and value if absent.
    pub(crate) fields: &'static [(&'static str, &'static str)],
    /// The schema of a custom resource, if it has one.
    pub(crate) types: Option<&'static Types>,
    /// Another resource that stores the objects of this one under other field names.
    pub(crate) alias: Option<Alias>,
    /// Metadata fields that a write of `/status` does not change.
    pub(crate) status_keeps: &'static [&'static str],
    /// `/scale`, if the kind has it.
    pub(crate) scale: Option<Scale>,
    /// Subresources that act on the object, by name.
    pub(crate) actions: &'static [(&'static str, Action)],
    /// Where the kind is defined.
    pub(crate) source: Source,
    /// Effect of a delete on dependents, if the delete does not specify it.
    pub(crate) dependents: Dependents,
    /// True if a delete answers with the deleted object rather than a `Status`.
    pub(crate) returned_when_deleted: bool,
}

/// Where a kind is defined.
///
/// Kinds that are not built in have no Go type: bodies must name their kind, nulls and empty lists are kept, and there
/// is no strategic merge patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// In the API server.
    BuiltIn,
    /// In a custom resource definition that the server stores.
    Definition,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Cluster,
    Namespaced,
}

/// The effect of writes to the main resource on `status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusRule {
    /// There is no status subresource; `status` is an ordinary field.
    Ordinary,
    /// A create sets it; later writes do not change it.
    SetByCreate,
    /// Only the status subresource writes it.
    SubresourceOnly,
}

/// Effect of a delete on dependents, if the delete does not specify it (`DefaultGarbageCollectionPolicy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependents {
    /// They are deleted after the object.
    Deleted,
    /// They stay.
    Orphaned,
    /// The garbage collector ignores the kind.
    Unsupported,
}

/// A second view of another resource's objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alias {
    /// The resource that stores the objects.
    pub(crate) of: &'static Resource,
    /// Top-level fields: stored name, served name.
    pub(crate) renames: &'static [(&'static str, &'static str)],
}

/// Metadata fields that clients write.
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

    /// True if both are the same resource, in any version.
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

    /// `plural.group`, as error messages name the resource.
    pub(crate) fn qualified_plural(&self) -> String {
        qualify(self.plural, self.group)
    }

    /// `Kind.group`, as validation messages name it.
    pub(crate) fn qualified_kind(&self) -> String {
        qualify(self.kind, self.group)
    }

    /// True if objects have a namespace.
    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// True if objects have no Go type.
    pub(crate) fn is_custom(&self) -> bool {
        self.source != Source::BuiltIn
    }

    pub(crate) fn has_status(&self) -> bool {
        self.status != StatusRule::Ordinary
    }

    /// The resource in whose form and under whose keys objects are stored.
    pub(super) fn stored(&'static self) -> &'static Self {
        self.alias.map_or(self, |alias| alias.of)
    }

    /// The type of the objects.
    pub(super) fn schema(&self) -> Schema {
        Schema::of(self.types, &self.api_version(), self.kind)
    }

    /// Renames the top-level fields of a stored object to those of this resource.
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

/// `name.group`, or `name` in the core group.
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
