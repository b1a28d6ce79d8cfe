//! A transcript fails where it should, and says why.

use super::{parse::parse, run::play};
use crate::rows;
use crate::twin::{Setting, embedded_ground};

/// Plays a transcript of one scenario; what went wrong, if anything.
async fn played(steps: &str) -> Result<(), String> {
    let transcript = parse(&format!("## s\n{steps}"))?;
    let ground = embedded_ground(Setting::Plain);
    play("t.txt", &transcript, &transcript.scenarios[0], ground).await
}

#[tokio::test(start_paused = true)]
async fn what_is_not_as_expected_is_reported() {
    let lease = "POST leases {metadata: {name: l, labels: {a: b}}, spec: {holderIdentity: h}}\n";
    let watched = format!("{lease}201 as l\nWATCH leases since $l as w\n");
    for (steps, line, why) in rows! {
        "200", 3 => "expected [200], found 201";
        "201 {spec.holderIdentity: other}", 3 => "expected spec.holderIdentity: \"other\"\nfound \"h\"";
        "201 {spec.nothing: x}", 3 => "expected spec.nothing: \"x\", found none";
        "201 {metadata.labels: null}", 3 => "expected no metadata.labels, found";
        "201 {metadata.labels: {}}", 3 => "expected no metadata.labels.a, found \"b\"";
        "201 {metadata.labels: {a: b, c: d}}", 3 => "expected metadata.labels.c, found none";
        "201 {metadata.labels: <null>}", 3 => "expected metadata.labels: \"<null>\"";
        "201 {metadata.uid: <35 characters>}", 3 => "expected metadata.uid: \"<35 characters>\"";
        "201 {metadata.uid: <magic>}", 3 => "<magic> is unknown";
        "201 {metadata.uid: <ends with 5 of abc>}", 3 => "expected metadata.uid";
        "201 {metadata.name: <not l>}", 3 => "expected metadata.name";
        "201 {metadata.name: <3 times l>}", 3 => "expected metadata.name: \"lll\"";
        "201 {metadata.managedFields.*.manager: <all others>}", 3 => "expected metadata.managedFields.*.manager";
        "201 {metadata.managedFields.*.nobody: []}", 3 => "expected metadata.managedFields.*.nobody: []";
        "201 as l\nlet t = $l.metadata.creationTimestamp\ncheck $t = '<1 to 9 seconds after ${t}>'", 5 => "<1 to";
        "201\nGET /version\n200 the same in protobuf", 5 => "code and media type in protobuf";
        "201\n  Content-Type: null", 3 => "expected Content-Type: null";
        "201 = {metadata: {}}", 3 => "expected no apiVersion, found";
        "201 as l\nGET leases/l\n200 newer than $l", 5 => "expected a version newer than";
        "201 as l\nMERGE leases/l {spec: {holderIdentity: i}}\n200 same version as $l", 5 => "expected a version of";
        "201 as l\nMERGE leases/l {spec: null}\n200 as m\ncheck $l not older than $m", 6 => "expected a version";
        "201\nGET leases\n200 items [l, m]", 5 => "expected items: [\n  \"l\",\n  \"m\"\n]";
        "201 owners []", 3 => "expected owners";
        "201\n  Content-Type: text/plain", 3 => "expected Content-Type: \"text/plain\"";
        "201\nGET leases/m\n404 Gone", 5 => "expected reason: \"Gone\"\nfound \"NotFound\"";
        "201\nGET leases/m\n404 \"no\"", 5 => "expected message: \"no\"";
        "201\nGET leases/m\n404 begins \"no\"", 5 => "expected message: \"<starts with no>\"";
        "201\nGET /api/v1/x\n404 exactly NotFound 'the server could not find the requested resource'", 5 => "details";
        "201\nGET leases/m\n404 exactly NotFound 'x'", 5 => "expected no details, found";
        "201\nGET leases/m\n404 causes []", 5 => "code and reason";
        "201\nPOST leases {}\n422 causes []", 5 => "expected causes: []";
        "201\nGET leases/l\nuntil 404", 5 => "expected [404], found 200";
        "201\nfor each n in [l, m]\nGET leases/${n}\n200\nend", 6 => "expected [200], found 404";
        "201 as l\ncheck $l.spec {holderIdentity: x}", 4 => "expected holderIdentity";
        "201\nWATCH leases?limit=x as w\nw is silent", 4 => "expected a watch, found 400";
    } {
        let found = played(&format!("{lease}{steps}")).await.err().unwrap_or_default();
        let place = format!("t.txt:{line}: ");
        assert!(found.contains(&place) && found.contains(why), "{steps}:\n{found}");
    }
    for (steps, line, why) in rows! {
        "w tells ADDED l", 5 => "expected an event, found Silence";
        "MERGE leases/l {spec: null}\n200\nw is silent", 7 => "found Event";
        "MERGE leases/l {spec: null}\n200\nw tells DELETED l", 7 => "found \"MODIFIED\" of";
        "MERGE leases/l {spec: null}\n200\nw tells MODIFIED m", 7 => "expected metadata.name: \"m\"";
        "MERGE leases/l {spec: null}\n200\nw tells MODIFIED = $l", 7 => "expected metadata.managedFields";
        "w ends", 5 => "found Silence";
    } {
        let found = played(&format!("{watched}{steps}"))
            .await
            .err()
            .unwrap_or_default();
        let place = format!("t.txt:{line}: ");
        assert!(found.contains(&place) && found.contains(why), "{steps}:\n{found}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_its_line() {
    for (text, why) in rows! {
        "## s\nFETCH pods\n200" => "2: FETCH is unknown";
        "## s\nGET pots\n200" => "2: pots is no resource";
        "## s\nas bob GET pods\n200" => "2: bob is no user";
        "## s\nGET pods" => "2: this expects no code";
        "## s\nGET pods\nGET pods\n200" => "3: the line before expects no code";
        "## s\n200" => "2: this answers no request";
        "## s\nGET pods\n200 = $x" => "3: $x is unknown";
        "## s\nGET pods/${x}\n200" => "2: $x is unknown";
        "## s\nGET pods\n200 as x" => "3: $x is never used";
        "## s\nGET pods\n200\nw is silent" => "4: $w is unknown";
        "## s\nWATCH pods as w" => "2: $w is never used";
        "let x = 1\n## s\nGET pods\n200" => "1: $x is never used";
        "## s\nPOST pods {a: b\n201" => "2: no end of {a: b";
        "## s\nPOST pods {} {} more\n201" => "2: more than a body";
        "## s\nfor each x in [1]\nGET pods/${x}\n200" => "2: this has no end";
        "## s\nGET pods\n200\nend" => "4: this ends nothing";
        "## s\nfor each x, y\n  | 1 |\nend" => "2: each row must have 2 cells";
        "## s\ndo it {}" => "2: it is not said";
        "to make name\nGET pods/${name}\n200\nend\n## s\ndo make {other: x}" => "6: make takes";
        "to make name\nGET pods/${name}\n200\nend\n## s\nGET pods\n200" => "1: make is never done";
        "setting odd\n## s\nGET pods\n200" => "1: odd is no setting";
        "GET pods\n200\n## s\nGET pods\n200" => "1: ";
        "## s\nGET pods\n200\n## s\nGET pods\n200" => "4: there are two of this name";
        "## s\nGET pods\n200 {a: b} odd" => "3: odd is unknown";
        "## s\nGET pods\n200 {}" => "3: {} says nothing";
        "## s\nGET pods\n200 list [a]" => "3: [\"a\"] says nothing";
        "## s\nGET pods\n200 newer than" => "3: a value is missing";
    } {
        let found = parse(text).unwrap_err();
        assert!(found.starts_with(why), "{text}\n{found}");
    }
}

#[tokio::test(start_paused = true)]
async fn steps_are_played_with_what_was_said_before() {
    let steps = "
let lease = {metadata: {name: l, labels: {a: b}}}
POST leases $lease {metadata.name: m, metadata.labels: null, metadata.annotations.c: '${lease.metadata.name}s'}
201 m {metadata.labels: null, metadata.annotations: {c: ls}} as first
for each name, label
  | x | \"1\" |
  | y | two |
POST leases $lease {metadata: {name: $name, labels: {'${name}-label': $label}}}
201 {metadata.labels: {'${name}-label': $label}}, newer than $first as last
end
check $last.metadata.name = y
GET leases?labelSelector=x-label in (1, 2)
200 items [x] {items.*.metadata.name: [x], 'items.0.metadata.managedFields.operation=Update.manager': scenario}
PUT leases/m '{'
400 or 415";
    let steps = steps.replace("x-label in (1, 2)", "x-label%20in%20(1,2)");
    assert_eq!(played(&steps).await, Ok(()));
}

#[test]
fn every_transcript_is_played() {
    let played = include_str!("../on_both.rs");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenarios/transcripts");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let (name, kind) = name.split_once('.').unwrap();
        let mut words = played.split(|c: char| !c.is_alphanumeric() && c != '_');
        assert!(kind == "txt" && words.any(|word| word == name), "{name}.{kind}");
    }
}
