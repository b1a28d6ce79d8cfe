//! A small API server with one resource: one counter of versions, and a log of everything that a watch shows.

use std::collections::BTreeMap;

/// The fields of an object. Each holds the version at which it was written last, so a greater one is a later one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Fields {
    /// Written by us, sometimes by others.
    pub(crate) ours: u64,
    /// Written by us only.
    pub(crate) mark: u64,
    /// Written by others only.
    pub(crate) theirs: u64,
    /// Since when it is being deleted; 0 if it is not.
    pub(crate) deleting: u64,
    /// Since when it has no finalizer; 0 if it has one.
    pub(crate) released: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Object {
    pub(crate) uid: u64,
    pub(crate) version: u64,
    pub(crate) fields: Fields,
    /// Whether our informer keeps it; never again once it does not.
    pub(crate) kept: bool,
}

/// An event of the watch: the object, and whether it is deleted.
#[derive(Clone, Debug)]
pub(crate) struct Logged {
    pub(crate) name: &'static str,
    pub(crate) object: Object,
    pub(crate) deleted: bool,
}

/// A request. Those but `Create` may name the uid that they mean.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verb {
    /// Whether with a finalizer.
    Create(bool),
    WriteOurs,
    WriteMark,
    WriteTheirs,
    /// Changes nothing that a view shows.
    Touch,
    /// From now on our informer does not keep it.
    Hide,
    Delete,
    Release,
}

/// What an accepted request has done.
#[derive(Clone, Debug)]
pub(crate) enum Done {
    Written(Object),
    /// The object as it was, and the version of its deletion.
    Deleted(Object, u64),
}

#[derive(Clone, Debug)]
pub(crate) struct Refused;

#[derive(Default)]
pub(crate) struct Server {
    pub(crate) objects: BTreeMap<&'static str, Object>,
    pub(crate) log: Vec<Logged>,
    pub(crate) version: u64,
    uids: u64,
}

impl Fields {
    pub(crate) fn each(&self) -> [u64; 5] {
        [self.ours, self.mark, self.theirs, self.deleting, self.released]
    }
}

impl Server {
    /// Does what is asked, or refuses it.
    pub(crate) fn request(
        &mut self,
        name: &'static str,
        uid: Option<u64>,
        verb: Verb,
    ) -> Result<Done, Refused> {
        let version = self.version + 1;
        let mut object = match (self.objects.get(name), verb) {
            (None, Verb::Create(finalizer)) => {
                self.uids += 1;
                Object {
                    uid: self.uids,
                    version,
                    fields: Fields {
                        released: if finalizer { 0 } else { version },
                        ..Fields::default()
                    },
                    kept: true,
                }
            }
            (Some(_), Verb::Create(_)) | (None, _) => return Err(Refused),
            (Some(object), _) if uid.is_some_and(|uid| uid != object.uid) => return Err(Refused),
            (Some(object), _) => object.clone(),
        };
        let before = object.clone();
        let fields = &mut object.fields;
        match verb {
            Verb::Create(_) | Verb::Touch => {}
            Verb::WriteOurs => fields.ours = version,
            Verb::WriteMark => fields.mark = version,
            Verb::WriteTheirs => fields.theirs = version,
            Verb::Hide => object.kept = false,
            // A request that changes nothing makes no version.
            Verb::Delete if fields.deleting > 0 => return Ok(Done::Written(object)),
            Verb::Delete => fields.deleting = version,
            Verb::Release if fields.released > 0 => return Ok(Done::Written(object)),
            Verb::Release => fields.released = version,
        }
        let deleted = fields.deleting > 0 && fields.released > 0;
        self.version = version;
        object.version = version;
        self.log.push(Logged {
            name,
            object: object.clone(),
            deleted,
        });
        if deleted {
            self.objects.remove(name);
            return Ok(Done::Deleted(before, version));
        }
        self.objects.insert(name, object.clone());
        Ok(Done::Written(object))
    }
}
