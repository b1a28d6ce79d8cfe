//! `PodGroups` of a history that has them: a group that comes anew has the entries that it had before, so that what its
//! pods share does not depend on when the steps came.

use std::time::Duration;

use controller_testing::fault_history::{At, Draw};
use controller_testing::history::{Scripted, step};
use controller_testing::objects::{edit, remove};
use embedded_apiserver::{POD_GROUPS, Server};
use serde_json::{Value, json};

use super::sight::Sight;
use super::steps::{entry_name, goes, looking, shared_name, template_name};
use super::suite::Claims;
use crate::world::{made, own, pod_group};

const GROUPS: usize = 2;

pub(super) fn name_of(group: usize) -> String {
    format!("group-{group}")
}

pub(super) fn drawn(draw: &mut Draw) -> usize {
    draw.pick(&[0, 0, 1])
}

/// What the group shares with those of its pods that have the same.
pub(super) fn entries(group: usize) -> Vec<Value> {
    let mut entries = vec![made(&entry_name(0), &template_name(group))];
    if group == 1 {
        entries.push(own(&entry_name(1), &shared_name(0)));
    }
    entries
}

/// Groups count from the start, and mostly exist.
pub(super) fn at_first(draw: &mut Draw, length: Duration) -> Vec<At<Scripted<Claims>>> {
    let serve = step(
        "PodGroups are served, and have claims",
        |claims: &mut Claims, server| {
            server.serve(&POD_GROUPS);
            claims.has_groups = true;
        },
    );
    let groups = (0..GROUPS).map(|group| {
        let late = draw.chance(30).then(|| draw.time(Duration::ZERO..length / 2));
        let (time, what) = (late.unwrap_or_default(), comes(group));
        At { time, what }
    });
    let groups: Vec<_> = groups.collect();
    [At::seconds(0, serve)].into_iter().chain(groups).collect()
}

pub(super) fn drawn_step(draw: &mut Draw) -> Scripted<Claims> {
    let group = drawn(draw);
    match draw.number(0..10) {
        0..4 => comes(group),
        4..7 => goes(&POD_GROUPS, name_of(group)),
        7..9 => looking(format!("{} is changed", name_of(group)), move |server| {
            edit(server, &POD_GROUPS, &name_of(group), |group| {
                group["metadata"]["labels"] = json!({ "changed": "true" });
            });
        }),
        _ => looking(format!("{} is force-deleted", name_of(group)), move |server| {
            remove(server, &POD_GROUPS, &name_of(group));
        }),
    }
}

fn comes(group: usize) -> Scripted<Claims> {
    looking(
        format!("{} comes, unless it exists", name_of(group)),
        move |server| make(server, group),
    )
}

fn make(server: &Server, group: usize) {
    let _ = server.insert(pod_group(&name_of(group), &entries(group)));
}

pub(super) fn make_all(server: &Server) {
    (0..GROUPS).for_each(|group| make(server, group));
}

pub(super) fn remove_all(server: &Server) {
    (0..GROUPS).for_each(|group| remove(server, &POD_GROUPS, &name_of(group)));
}

/// Those that are being deleted, and that no pod needs.
pub(super) fn let_go(server: &Server) {
    let sight = Sight::of(server);
    for group in sight.groups.iter().filter(|group| group.deleting) {
        let mut pods = sight.pods.iter().filter(|pod| pod.lives());
        if !pods.any(|pod| pod.group.as_ref() == Some(&group.name)) {
            remove(server, &POD_GROUPS, &group.name);
        }
    }
}
