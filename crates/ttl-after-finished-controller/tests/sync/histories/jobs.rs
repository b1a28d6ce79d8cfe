//! What can happen to a handful of Jobs.

use std::time::Duration;

use controller_testing::fault_history::{At, Draw};

use super::scene::{Named, Step, create, delete, finish, release, set_ttl};
use crate::ledger::Told;

const TTLS: [Option<i64>; 7] = [
    None,
    Some(0),
    Some(5),
    Some(15),
    Some(30),
    Some(60),
    Some(1_000_000),
];

pub(super) fn steps<const POLICIES: bool>(draw: &mut Draw, length: Duration) -> Vec<At<Step<POLICIES>>> {
    let jobs = draw.number(3..10);
    let named = |number| Named {
        is_pod: false,
        number,
    };
    let mut steps = Vec::new();
    for job in 0..jobs {
        steps.push(At::seconds(0, created(draw, named(job))));
        if draw.chance(50) {
            steps.push(At::seconds(0, finished(draw, named(job), 100)));
        }
    }
    // Expiries fall on whole seconds. If steps may fall on them, too, either may be first.
    let close = draw.chance(20);
    let mut times: Vec<_> = (0..draw.number(4..20))
        .map(|_| {
            let time = draw.time(Duration::from_secs(1)..length);
            let apart = Duration::from_secs(time.as_secs()) + Duration::from_millis(500);
            if close { time } else { apart }
        })
        .collect();
    times.sort();
    for time in times {
        let job = named(draw.number(0..jobs));
        let what = match draw.number(0..10) {
            0..4 => finished(draw, job, 10),
            4..7 => set_ttl(job, draw.pick(&TTLS)),
            7 => created(draw, job),
            8 => delete(job),
            _ => release(job),
        };
        steps.push(At { time, what });
    }
    steps
}

/// Some have a finalizer.
fn created<const POLICIES: bool>(draw: &mut Draw, job: Named) -> Step<POLICIES> {
    let told = Told {
        ttl: draw.pick(&TTLS),
        held: draw.chance(20),
        ..Told::default()
    };
    create(job, None, false, told)
}

fn finished<const POLICIES: bool>(draw: &mut Draw, job: Named, longest_ago: usize) -> Step<POLICIES> {
    let ago = i64::try_from(draw.number(0..longest_ago)).unwrap();
    finish(job, ago, draw.chance(50))
}
