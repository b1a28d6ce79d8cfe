//! Plain lines: for logs, pipes and CI.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use controller_runtime::shutdown::Trigger;
use tokio::sync::mpsc::UnboundedReceiver;

use super::words::{Kubectl, narration};
use crate::event::{Action, Event, Moment};

/// Interval between counts that keep changing. Quick changes are only shown by their result.
const COUNTS_EVERY: Duration = Duration::from_millis(500);

/// Turns events into lines. The first of equal actions is a line, the others become a number.
#[derive(Debug, Default)]
pub(crate) struct Plain {
    kubectl: Kubectl,
    counted: &'static str,
    steps: usize,
    /// Number of actions for each reason since the last line of the story.
    did: BTreeMap<(&'static str, Action, String), u64>,
    /// Time of the next counts; `None` before a change.
    counts_due: Option<Duration>,
}

impl Plain {
    pub(super) async fn show(mut self, mut moments: UnboundedReceiver<Moment>, stop: &Trigger) {
        while let Some(moment) = moments.recv().await {
            let mut out = io::stdout().lock();
            let written = self
                .lines(&moment)
                .iter()
                .try_for_each(|line| writeln!(out, "{line}"));
            if written.is_err() {
                stop.advance();
                return;
            }
        }
    }

    fn lines(&mut self, moment: &Moment) -> Vec<String> {
        self.kubectl.observe(&moment.event);
        let mut lines = Vec::new();
        match &moment.event {
            Event::Scene {
                counted,
                steps,
                kubectl,
                ..
            } => {
                (self.counted, self.steps) = (counted, *steps);
                self.counts_due = None;
                lines.extend(self.rest_of_the_actions());
                lines.extend(narration(&moment.event));
                lines.push(format!("Look at it with: {}", self.kubectl.command(kubectl)));
            }
            Event::Step { number, title, says } => {
                lines.extend(self.rest_of_the_actions());
                lines.push(format!("Step {number} of {}, {title}. {says}", self.steps));
            }
            Event::Did {
                controller,
                action,
                object,
                reason,
            } => {
                let times = self.did.entry((controller, *action, reason.clone())).or_default();
                *times += 1;
                if *times == 1 {
                    lines.push(format!("  {controller} {action} {object}: {reason}"));
                }
            }
            Event::Counts(counts) => {
                let due = *self.counts_due.get_or_insert(moment.at + COUNTS_EVERY);
                if moment.at >= due {
                    self.counts_due = Some(moment.at + COUNTS_EVERY);
                    lines.push(format!("  {}: {counts}", self.counted));
                }
            }
            Event::AsExpected { .. } => {
                self.counts_due = None;
                lines.extend(self.rest_of_the_actions());
                lines.extend(narration(&moment.event).as_deref().map(indented));
            }
            Event::Cluster { .. } => lines.extend(narration(&moment.event)),
            Event::Metrics { .. } => {}
            Event::Started { .. } | Event::Said { .. } | Event::Answered(_) | Event::Note(_) => {
                lines.extend(self.rest_of_the_actions());
                lines.extend(narration(&moment.event).as_deref().map(indented));
            }
        }
        let at = moment.at.as_secs_f64();
        lines.iter().map(|line| format!("{at:6.1} s  {line}")).collect()
    }

    fn rest_of_the_actions(&mut self) -> Vec<String> {
        std::mem::take(&mut self.did)
            .into_iter()
            .filter(|(_, times)| *times > 1)
            .map(|((controller, action, reason), times)| {
                format!("  {controller} {action} {} more: {reason}", times - 1)
            })
            .collect()
    }
}

fn indented(line: &str) -> String {
    format!("  {line}")
}

#[cfg(test)]
mod tests {
    use super::super::samples::{
        TTL, as_expected, cluster, counts, moments, reading, said, started, step, ttl_scene, wrote,
    };
    use super::*;

    #[test]
    fn the_story_is_told_in_lines() {
        let wrote = |number: usize, was: &str| {
            let reason = format!("TTL set to 15 s, was {was}");
            wrote(TTL, &format!("demo-node-{number:04}"), &reason)
        };
        let events = vec![
            cluster("/tmp/my demo/kubeconfig", Some("kind-demo")),
            ttl_scene(3, 2),
            step(1, "120 nodes", "More than 100: 15 s."),
            started(),
            counts([(120, "0 s"), (0, "15 s")]),
            said("step chosen (nodes=120)"),
            wrote(1, "0"),
            counts([(119, "0 s"), (1, "15 s")]),
            wrote(2, "0"),
            wrote(3, "none"),
            counts([(118, "0 s"), (2, "15 s")]),
            reading(TTL, 0),
            wrote(4, "0"),
            as_expected([(120, "15 s")], 4, 1234),
            step(2, "95 nodes", "Nothing is written."),
            Event::Answered("  demo-node-0007: 15 s".to_owned()),
            Event::Note("Bye.".to_owned()),
        ];
        let mut plain = Plain::default();
        let lines = moments(events).flat_map(|moment| plain.lines(&moment));
        insta::assert_snapshot!(lines.map(|line| line + "\n").collect::<String>());
    }
}
