//! Texts of both displays.

use crate::event::Event;

/// The text of an event in the story; both displays show the same.
pub(super) fn narration(event: &Event) -> Option<String> {
    Some(match event {
        Event::Cluster { url, .. } => format!("The API server is {url}"),
        Event::Scene {
            number,
            of,
            controller,
            shows,
            ..
        } => format!("Scene {number} of {of}, {controller}: {shows}"),
        Event::Step { number, title, says } => format!("Step {number}, {title}. {says}"),
        Event::AsExpected { counts, writes, took } => {
            let took = took.as_secs_f64();
            format!("As expected after {took:.1} s: {counts}; {writes}")
        }
        Event::Started {
            controller,
            pid,
            admin,
        } => format!("{controller} runs as process {pid}; its metrics: http://{admin}/metrics"),
        Event::Said { controller, text } => format!("{controller} says: {text}"),
        Event::Answered(line) => format!("│ {line}"),
        Event::Note(text) => text.clone(),
        Event::Counts(_) | Event::Did { .. } | Event::Metrics { .. } => return None,
    })
}

/// The `kubectl` command for the cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct Kubectl(String);

impl Kubectl {
    /// Takes the address of the cluster from its event.
    pub(super) fn observe(&mut self, event: &Event) {
        if let Event::Cluster {
            kubeconfig, context, ..
        } = event
        {
            let file = quoted(&kubeconfig.to_string_lossy());
            let context = context
                .as_deref()
                .map(|context| format!(" --context {}", quoted(context)));
            self.0 = format!("kubectl --kubeconfig {file}{}", context.unwrap_or_default());
        }
    }

    pub(super) fn command(&self, arguments: &str) -> String {
        format!("{} {arguments}", self.0)
    }
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=+".contains(c);
    if word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
