//! Plays transcripts: scenarios as text, in `transcripts/`.
//!
//! ```text
//! ## a pod that runs nowhere goes at once
//! POST pods $pod {metadata.name: p, spec.nodeName: ""}
//! 201 as created
//! DELETE pods/p {gracePeriodSeconds: 100}
//! 200 {kind: Pod, metadata.deletionGracePeriodSeconds: 0}, newer than $created
//! GET pods/p
//! 404 NotFound 'pods "p" not found'
//! ```
//!
//! `##` begins a scenario, `#` a comment. Indented lines continue the line above them. Before the first scenario there
//! may be `setting pod groups` or `setting coarse claim status`. A scenario may begin with `since 1.37`: older servers
//! fail it.
//!
//! **Requests** are `VERB path body`. Resources are in the namespace `default`; other paths begin with a slash. The
//! query need not be escaped. `MERGE`, `STRATEGIC`, `JSONPATCH` and `APPLY` are PATCH with their content type; `SEND
//! $verb path` takes the verb from a name. `as alice`, `as anonymous` or `as stranger` before the verb is another user.
//! The body is flow YAML, sent as JSON; what is quoted is sent as it stands. Headers stand indented below, as in HTTP.
//!
//! **Answers**: the code (or `201 or 409`), then any of these. `until 404` repeats the request until it is so answered.
//!
//! | written | the answer has |
//! |---|---|
//! | `{path.to.field: value}` | these fields; null: no such field |
//! | `NotFound "message"` | this reason and message of a Status; `begins "…"`: the start of the message |
//! | `exactly NotFound "message" {details}` | this Status and nothing else; reason and details may be missing |
//! | `causes [[field, reason]]` | these causes, of 422; `causes in any order […]`: once they are sorted |
//! | `= $x` | the same body |
//! | `newer than $x`, `not older than $x`, `same version as $x` | a resource version like that |
//! | `items [a, b]` | items of these names |
//! | `owners [[manager, operation, fields]]` | these entries in `managedFields` |
//! | `as x` | a name from here on |
//! | `the same in protobuf`, at the end | the same body for who prefers protobuf, as the embedded server encodes it |
//!
//! In a path, `0` is an item of a list, `*` all items, and `type=Ready` the item with this field. What an expected
//! value is like is in angle brackets: `<any>`, `<null>`, `<not x>`, `<all x>` of a list, `<starts with x>`,
//! `<ends with x>`, `<ends with 5 of abc>`, `<contains x>`, `<without x>`, `<36 characters>`, `<30 to 39 seconds after
//! TIME>`. `<3 times x>` is `xxx`.
//!
//! **Names**: `let x = VALUE` and `as x` name values. A value that is `$x.path` is replaced, and `${x.path}` in any
//! text. Fields after a value change it: `$pod {spec.nodeName: n}`; null removes.
//!
//! **Watches**: `WATCH pods since $x as w` opens one. `w tells MODIFIED name {field: value}` is its next event, with
//! all that an answer can have; `w is silent` for 300 ms; `w ends`.
//!
//! **Blocks** reach to an `end`. `for each x in [1, 2]`, or `for each x, y` with rows `| 1 | 2 |` below it, repeats
//! steps. `to make name, labels` before the first scenario says what steps `do make {name: n, labels: {}}` takes.
//!
//! `check $x` has what an answer can have; `catch up leases` waits until the watch cache has the last write.

mod check;
mod lines;
mod names;
mod parse;
mod paths;
mod run;
mod script;
mod tests;
mod tokens;
mod value;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::twin::{Scenario, Setting, embedded_ground};

fn read(name: &str) -> Result<script::Transcript, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/scenarios/transcripts/{name}.txt"));
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse::parse(&text).map_err(|why| format!("{name}.txt:{why}"))
}

/// The scenarios of a file.
pub(crate) fn scenarios(name: &str) -> (Setting, Vec<Scenario>) {
    let transcript = Arc::new(read(name).unwrap_or_else(|why| panic!("{why}")));
    let scenarios = (0..transcript.scenarios.len()).map(|index| {
        let (transcript, file) = (transcript.clone(), format!("{name}.txt"));
        let script = &transcript.scenarios[index];
        Scenario {
            name: script.name.clone(),
            since: script.since,
            run: Box::new(move |ground| {
                let (transcript, file) = (transcript.clone(), file.clone());
                Box::pin(
                    async move { run::play(&file, &transcript, &transcript.scenarios[index], ground).await },
                )
            }),
        }
    });
    (transcript.setting, scenarios.collect())
}

/// Plays the scenarios of a file on embedded servers, each on its own, and fails with all failures. The environment
/// variable `SCENARIO` selects those whose names contain it.
pub(crate) fn play_on_embedded(name: &str) {
    let (setting, scenarios) = scenarios(name);
    let mut failures = Vec::new();
    for scenario in scenarios
        .iter()
        .filter(|scenario| crate::twin::is_wanted(&scenario.name))
    {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().start_paused(true).build().unwrap();
        let played = runtime.block_on(async {
            let ground = embedded_ground(setting);
            tokio::spawn((scenario.run)(ground)).await
        });
        let failed = played.unwrap_or_else(|error| Err(error.to_string())).err();
        failures.extend(failed.map(|why| format!("{}: {why}", scenario.name)));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
