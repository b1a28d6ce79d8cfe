//! Handles the result of an action: what to remember of it, and which events to record.

use std::sync::Arc;

use controller_core::controller::{ContextMut, Outcome};
use controller_core::meta::ObjectKey;
use controller_core::rival::Pace;

use crate::DisruptionController;
use crate::events::{Event, LastSync};
use crate::requests::StatusWrite;
use crate::state::Budget;

/// A budget was computed; `wrote` says whether its status changed.
pub(crate) fn seen(
    cx: &mut ContextMut<'_, DisruptionController>,
    key: &ObjectKey,
    seen: LastSync,
    wrote: bool,
) {
    let Some(budget) = cx.state.budget(key) else {
        return;
    };
    for event in seen.news(budget.seen.as_ref(), &budget.pdb, wrote) {
        cx.out.record(event);
    }
    let now = cx.now.uptime;
    cx.state.change(key, None, |budget| {
        if wrote {
            budget.seen = Some(seen);
        } else {
            budget.left(seen, now);
        }
    });
}

/// The write of a status has ended.
pub(crate) fn outcome(cx: &mut ContextMut<'_, DisruptionController>, write: &StatusWrite, outcome: &Outcome) {
    let status = &write.status;
    let ended = |budget: &mut Budget| (Arc::clone(&budget.pdb), budget.ended(outcome));
    let Some((pdb, behind)) = cx.state.change(&status.pdb.key, Some(&status.pdb.uid), ended) else {
        return;
    };
    if !matches!(outcome, Outcome::Accepted(_)) {
        return;
    }
    cx.state.rivals.wrote(&status.pdb.key, cx.now.uptime);
    if let Some(since) = behind {
        cx.out.record(Event::Written(cx.now.uptime.saturating_sub(since)));
    }
    seen(cx, &status.pdb.key, write.seen.clone(), true);
    for (pod, uid) in &status.overdue {
        let event = Event::NotDeleted(Arc::clone(&pdb), Arc::clone(pod), uid.clone());
        cx.out.record(event);
    }
}

/// Another writer has undone the status of a budget. Warns once of that writer.
pub(crate) fn undone(cx: &mut ContextMut<'_, DisruptionController>, key: &ObjectKey) {
    let is_first = cx.state.rivals.undone(Pace::default(), key, cx.now.uptime);
    cx.out.record(Event::Undone);
    let (true, Some(budget)) = (is_first, cx.state.budget(key)) else {
        return;
    };
    let pdb = Arc::clone(&budget.pdb);
    let manager = pdb.written_by.as_deref().unwrap_or("an unknown field manager");
    let manager = manager.to_owned();
    if cx.state.rivals.may_warn(&manager, cx.now.uptime) {
        cx.out.record(Event::Rival(pdb, manager));
    }
}
