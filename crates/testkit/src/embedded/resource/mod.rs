//! All that the server knows about a kind; the kinds themselves are in [`table`].

mod subresource;
pub mod table;

use serde_json::Value;

pub(super) use subresource::Target;
pub use subresource::{Action, Scale, Selector};

use crate::embedded::schema::{Schema, Types};

pub use table::{ALPHA, SERVED};

/// One served resource. A new kind is one `static` and one entry in [`SERVED`], both in `table.rs`.
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
    pub short_names: &'static [&'static str],
    /// Whether objects live in namespaces.
    pub scope: Scope,
    /// What writes to the main resource do with `status`.
    pub status: StatusRule,
    /// Whether `metadata.generation` counts changes outside `metadata` and `status`.
    pub generation: bool,
    /// Whether an update may leave out `metadata.resourceVersion`.
    pub unconditional_update: bool,
    /// Whether an update of an object that is not there creates it.
    pub create_on_update: bool,
    /// Selectable fields beside `metadata.name` and `metadata.namespace`: path, value when absent.
    pub fields: &'static [(&'static str, &'static str)],
    /// The types of a custom resource that brings them.
    pub types: Option<&'static Types>,
    /// The resource whose storage this one shows under other field names.
    pub alias: Option<Alias>,
    /// Fields of the metadata that a write of `/status` leaves alone.
    pub status_keeps: &'static [&'static str],
    /// What `/scale` shows, where there is one.
    pub scale: Option<Scale>,
    /// Subresources that do something, by name.
    pub actions: &'static [(&'static str, Action)],
    /// What stands behind it.
    pub source: Source,
    /// What a delete that does not say so does about dependents.
    pub dependents: Dependents,
    /// Whether a delete is answered with the deleted object rather than a `Status`.
    pub returned_when_deleted: bool,
}

/// What stands behind a resource.
///
/// Objects of all but the built-in ones have no Go type: bodies must name their kind, nulls and empty lists
/// are kept, and there is no strategic merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The API server itself.
    BuiltIn,
    /// The test, in place of a custom resource definition.
    Custom,
    /// A custom resource definition that the server stores.
    Definition,
}

/// Where objects of a resource live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In the cluster as a whole.
    Cluster,
    /// In namespaces.
    Namespaced,
}

/// What writes to the main resource do with `status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusRule {
    /// There is no status subresource: `status` is a field like any other.
    Ordinary,
    /// A create keeps what it brings, later writes leave it alone.
    SetByCreate,
    /// Only the subresource writes it.
    SubresourceOnly,
}

/// What a delete that does not say so does about dependents (`DefaultGarbageCollectionPolicy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependents {
    /// They are deleted after the object.
    Deleted,
    /// They stay.
    Orphaned,
    /// There are none: the garbage collector leaves the kind alone.
    Unsupported,
}

/// A second view of another resource's objects.
#[derive(Clone, Copy, Debug)]
pub struct Alias {
    /// The resource whose form is stored.
    pub of: &'static Resource,
    /// Top-level fields: stored name, served name.
    pub renames: &'static [(&'static str, &'static str)],
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

    /// Adds the names that `kubectl` users abbreviate to.
    #[must_use]
    pub const fn short(mut self, names: &'static [&'static str]) -> Self {
        self.short_names = names;
        self
    }

    /// Sets what writes do with `status`.
    #[must_use]
    pub const fn status(mut self, rule: StatusRule) -> Self {
        self.status = rule;
        self
    }

    /// Counts changes in `metadata.generation`.
    #[must_use]
    pub const fn generation(mut self) -> Self {
        self.generation = true;
        self
    }

    /// Refuses updates without a resourceVersion.
    #[must_use]
    pub const fn conditional_update(mut self) -> Self {
        self.unconditional_update = false;
        self
    }

    /// Lets an update create what is not there.
    #[must_use]
    pub const fn created_by_update(mut self) -> Self {
        self.create_on_update = true;
        self
    }

    /// Adds selectable fields.
    #[must_use]
    pub const fn fields(mut self, fields: &'static [(&'static str, &'static str)]) -> Self {
        self.fields = fields;
        self
    }

    /// Gives a custom resource the types of its definition; see [`Types::of_custom_resource`].
    #[must_use]
    pub const fn types(mut self, types: &'static Types) -> Self {
        self.types = Some(types);
        self
    }

    /// Shows the objects of `of` under other names of their top-level fields (stored, served).
    #[must_use]
    pub const fn alias_of(
        mut self,
        of: &'static Self,
        renames: &'static [(&'static str, &'static str)],
    ) -> Self {
        self.alias = Some(Alias { of, renames });
        self
    }

    /// Keeps fields of the metadata from writes of `/status`.
    #[must_use]
    pub const fn status_keeps(mut self, fields: &'static [&'static str]) -> Self {
        self.status_keeps = fields;
        self
    }

    /// Serves `/scale`; see [`Scale`] for the paths.
    #[must_use]
    pub const fn scale(
        mut self,
        replicas: &'static str,
        status_replicas: &'static str,
        selector: Selector,
    ) -> Self {
        self.scale = Some(Scale {
            replicas,
            status_replicas,
            selector,
        });
        self
    }

    /// Serves subresources that do something.
    #[must_use]
    pub const fn actions(mut self, actions: &'static [(&'static str, Action)]) -> Self {
        self.actions = actions;
        self
    }

    /// Sets what a delete that does not say so does about dependents.
    #[must_use]
    pub const fn dependents(mut self, rule: Dependents) -> Self {
        self.dependents = rule;
        self
    }

    /// Answers deletes with the deleted object rather than a `Status`.
    #[must_use]
    pub const fn returned_when_deleted(mut self) -> Self {
        self.returned_when_deleted = true;
        self
    }

    /// Treats its objects as those of a custom resource definition; see [`Source`].
    #[must_use]
    pub const fn custom(mut self) -> Self {
        self.source = Source::Custom;
        self.generation = true;
        self.unconditional_update = false;
        self.status_keeps = USER_METADATA;
        self
    }

    /// Whether this is the same resource, in whatever version.
    pub fn is(&self, other: &Self) -> bool {
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
    pub fn qualified_plural(&self) -> String {
        qualify(self.plural, self.group)
    }

    /// `Kind.group`, the name that validation messages use.
    pub fn qualified_kind(&self) -> String {
        qualify(self.kind, self.group)
    }

    /// Whether objects live in namespaces.
    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// Whether its objects have no Go type.
    pub fn is_custom(&self) -> bool {
        self.source != Source::BuiltIn
    }

    /// Whether there is a status subresource.
    pub fn has_status(&self) -> bool {
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

fn qualify(name: &str, group: &str) -> String {
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
