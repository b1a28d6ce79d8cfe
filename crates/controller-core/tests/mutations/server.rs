//! A small API server with one resource: one counter of versions, and a log of all watch events.

use std::collections::BTreeMap;

/// The fields of an object. Each holds the version of its last write, so the greater value is the later one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Fields {
    /// Written by us, sometimes by others.
    pub(crate) ours: u64,
    /// Written by us only.
    pub(crate) mark: u64,
    /// Written by others only.
    pub(crate) theirs: u64,
    /// Version at which deletion began; 0 if not in deletion.
    pub(crate) deleting: u64,
    /// Version at which the finalizer went; 0 if it has one.
    pub(crate) released: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Object {
    pub(crate) uid: u64,
    pub(crate) version: u64,
    pub(crate) fields: Fields,
    /// Our informer keeps the object. Once false, always false.
    pub(crate) kept: bool,
}

/// A watch event: the object, and whether it is deleted.
#[derive(Clone, Debug)]
pub(crate) struct Logged {
    pub(crate) name: &'static str,
    pub(crate) object: Object,
    pub(crate) deleted: bool,
}

/// A request. All except `Create` may name a uid.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verb {
    /// `true` creates the object with a finalizer.
    Create(bool),
    WriteOurs,
    WriteMark,
    WriteTheirs,
    /// Changes nothing that a view contains.
    Touch,
    /// From now on our informer does not keep the object.
    Hide,
    Delete,
    Release,
}

/// Effect of an accepted request.
#[derive(Clone, Debug)]
pub(crate) enum Done {
    Written(Object),
    /// The object before its deletion, and the version of the deletion.
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
    /// Carries out the request or refuses it.
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
