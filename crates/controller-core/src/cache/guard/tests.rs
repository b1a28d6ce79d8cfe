use std::collections::BTreeMap;

use kube_core::ObjectList;

use super::*;
use crate::cache::View;
use crate::cache::protobuf::{FieldKind, METADATA, Message, TEXTS_BY_NAME};
use crate::error::Chain;

#[derive(Clone, Deserialize)]
struct Strict {
    spec: u8,
}

#[derive(PartialEq)]
struct Kept(ObjectKey, u8);

impl View for Kept {
    type Index = std::convert::Infallible;

    fn key(&self) -> &ObjectKey {
        &self.0
    }

    fn index(&self, _: &mut Vec<Self::Index>) {}
}

impl Wire for Strict {
    type View = Kept;

    const MESSAGE: Option<Message> = Some(&[METADATA, (2, "spec", FieldKind::Int)]);

    fn into_view(self, object: Identity) -> Result<Kept, DecodeError> {
        Ok(Kept(object.key, self.spec))
    }
}

#[test]
fn a_deletion_at_a_time_that_cannot_be_represented_is_a_deletion() {
    let deleting = |time: &str| {
        let object = format!(r#"{{"metadata":{{"deletionTimestamp":{time}}}}}"#);
        read_meta(&object).unwrap().is_deleting
    };
    let times = [
        r#""2026-01-01T00:00:00Z""#,
        r#""99999-01-01T00:00:00Z""#,
        r#""soon""#,
        "null",
    ];
    assert_eq!(times.map(deleting), [true, true, true, false]);
}

const BAD: &str = r#"{"spec":256,"metadata":{"name":"n","namespace":7,"uid":"u","resourceVersion":"5"}}"#;

fn assert_skipped(object: Lenient<Strict>, why: &str) {
    assert_eq!(object.version(), Some("5"));
    let Err(skipped) = object.observed() else {
        panic!("256 is no u8");
    };
    assert_eq!(
        skipped.key,
        Some(ObjectKey::cluster("n")),
        "what is readable is kept"
    );
    assert_eq!(skipped.uid, Some(Uid::from("u")));
    assert_eq!(skipped.version.as_deref(), Some("5"));
    assert_eq!(
        Chain(&skipped.error).to_string(),
        format!("decode the object: invalid value: integer `256`, expected u8{why}")
    );
}

#[test]
fn a_bad_object_does_not_fail_its_list() {
    let json =
        format!(r#"{{"kind":"L","apiVersion":"v1","metadata":{{}},"items":[{BAD},null,{{"spec":1}}]}}"#);
    let list: ObjectList<Lenient<Strict>> = serde_json::from_str(&json).unwrap();
    assert_eq!(list.items.len(), 3);
    let bad = list.items.into_iter().next().unwrap();
    assert_skipped(bad, " at line 1 column 11");
}

#[test]
fn a_bad_object_in_protobuf_has_the_name_that_is_readable() {
    let bad = b"\x10\x80\x02\x0a\x0b\x0a\x01n\x18\x07\x2a\x01u\x32\x015";
    assert_skipped(Lenient::read_protobuf(bad), "");
}

/// Texts in a map, a list and a pointer, with a byte that is not UTF-8.
#[derive(Clone, Deserialize)]
struct Texts {
    metadata: BTreeMap<String, BTreeMap<String, String>>,
    list: Vec<String>,
    port: String,
}

impl Wire for Texts {
    type View = Kept;

    const MESSAGE: Option<Message> = Some(&[
        (
            1,
            "metadata",
            FieldKind::Message(&[(11, "labels", TEXTS_BY_NAME)]),
        ),
        (2, "list", FieldKind::List(&FieldKind::TextPointer)),
        (3, "port", FieldKind::IntOrString),
    ]);

    fn into_view(self, _: Identity) -> Result<Kept, DecodeError> {
        unreachable!("it has no name")
    }
}

#[test]
fn what_is_no_utf_8_is_read_alike_in_both_encodings() {
    let json = r#"{"metadata":{"labels":{"a\ufffd":"\ufffdb"}},"list":["c\ufffd"],"port":"\ufffd"}"#;
    let protobuf = b"\x0a\x0a\x5a\x08\x0a\x02a\xff\x12\x02\xffb\x12\x02c\xff\x1a\x05\x08\x01\x1a\x01\xff";
    for object in [
        Lenient::<Texts>::read_json(json),
        Lenient::read_protobuf(protobuf),
    ] {
        let Texts { metadata, list, port } =
            object.object.map_err(|error| Chain(&error).to_string()).unwrap();
        assert_eq!(metadata["labels"]["a\u{fffd}"], "\u{fffd}b");
        assert_eq!((&*list[0], &*port), ("c\u{fffd}", "\u{fffd}"));
    }
}

#[test]
fn an_object_without_a_name_is_skipped_whatever_else_it_holds() {
    let object = Lenient::<Strict>::read_json(r#"{"spec":1,"metadata":{"name":"","uid":"u"}}"#);
    let Err(skipped) = object.observed() else {
        panic!("it has no name");
    };
    assert_eq!(
        (skipped.key, skipped.error.to_string()),
        (None, "the object has no name".to_owned())
    );
}
