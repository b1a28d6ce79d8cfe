//! Options of writes, checked before anything else (apimachinery `apis/meta/v1/validation`).

use super::failure::{Cause, Failure};
use super::options::Parameters;
use super::request::Verb;

/// Bytes that a field manager may have.
const MANAGER_LIMIT: usize = 128;

/// Refuses options of a create, an update or a patch that cannot be met. `applies` says that a patch is a
/// server-side apply.
pub(super) fn check(query: &Parameters, verb: Verb, applies: bool) -> Result<(), Failure> {
    let kind = match verb {
        Verb::Create => "CreateOptions",
        Verb::Update => "UpdateOptions",
        _ => "PatchOptions",
    };
    let mut causes = Vec::new();
    if verb == Verb::Patch && !applies && query.has("force") {
        causes.push(Cause::forbidden(
            "force",
            "may not be specified for non-apply patch",
        ));
    }
    let manager = query.get("fieldManager");
    if applies && manager.is_empty() {
        causes.push(Cause::required("fieldManager", "is required for apply patch"));
    }
    if manager.len() > MANAGER_LIMIT {
        causes.push(Cause::too_long("fieldManager", MANAGER_LIMIT));
    }
    for (position, letter) in manager
        .chars()
        .enumerate()
        .filter(|(_, letter)| letter.is_control())
    {
        causes.push(Cause::invalid(
            "fieldManager",
            &format!("{manager:?}"),
            &format!(
                "invalid character U+{:04X} (at position {position})",
                u32::from(letter)
            ),
        ));
    }
    let dry_run: Vec<&str> = query.all("dryRun").collect();
    if dry_run.iter().any(|value| *value != "All") {
        let shown = format!("{dry_run:?}").replace("\", \"", "\",\"");
        causes.push(Cause::not_supported("dryRun", &shown, &["All"]));
    }
    let validation = query.get("fieldValidation");
    if !["", "Ignore", "Strict", "Warn"].contains(&validation) {
        let shown = format!("\"{validation}\"");
        let supported = ["", "Ignore", "Strict", "Warn"];
        causes.push(Cause::not_supported("fieldValidation", &shown, &supported));
    }
    if causes.is_empty() {
        Ok(())
    } else {
        Err(Failure::bad_options(kind, &causes))
    }
}
