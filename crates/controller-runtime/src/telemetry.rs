//! Logs (CORE-10): text for people or one flat JSON object a line, on stderr; panics are logged the same way.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::collections::BTreeMap;
use std::fmt;
use std::io::IsTerminal;
use std::panic::PanicHookInfo;

use controller_core::config::{BadLogFilter, LogFormat, log_filter};
use prometheus::IntCounter;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;
use tracing::subscriber::SetGlobalDefaultError;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::fmt::{
    FmtContext, FormatEvent, FormatFields, FormattedFields, MakeWriter, SubscriberBuilder,
};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::{LookupSpan, Scope};

use crate::clock::Clock;

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The filter does not parse.
    #[error(transparent)]
    Filter(#[from] BadLogFilter),
    /// [`init`] was called before.
    #[error("install the logger")]
    Installed(#[from] SetGlobalDefaultError),
}

/// Sends the logs and panics of the process to stderr from now on; call once per process.
///
/// `format` defaults to text on a terminal, else JSON. `filter` is a level or a comma-separated list of
/// `target=level`. Every panic is one line and adds one to `tasks_panicked`.
pub fn init(
    format: Option<LogFormat>,
    filter: &str,
    clock: &Clock,
    tasks_panicked: IntCounter,
) -> Result<(), Error> {
    let terminal = std::io::stderr().is_terminal();
    let format = format.unwrap_or(if terminal {
        LogFormat::Text
    } else {
        LogFormat::Json
    });
    // https://no-color.org
    let color = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let subscriber = subscriber(format, log_filter(filter)?, color, clock, std::io::stderr);
    tracing::subscriber::set_global_default(subscriber)?;
    std::panic::set_hook(Box::new(move |info| {
        tasks_panicked.inc();
        log_panic(info);
    }));
    Ok(())
}

fn subscriber<W>(
    format: LogFormat,
    filter: Targets,
    color: bool,
    clock: &Clock,
    writer: W,
) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let clock = clock.clone();
    let builder = SubscriberBuilder::default()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(writer)
        .with_ansi(color);
    match format {
        LogFormat::Text => Box::new(builder.with_timer(clock).finish().with(filter)),
        LogFormat::Json => Box::new(
            builder
                .with_ansi(false)
                .fmt_fields(JsonFields::new())
                .event_format(FlatJson { clock })
                .finish()
                .with(filter),
        ),
    }
}

fn log_panic(info: &PanicHookInfo<'_>) {
    let message = info
        .payload_as_str()
        .unwrap_or("a panic whose payload is not a string");
    let location = info.location().map(ToString::to_string);
    // Captured only when RUST_BACKTRACE asks for it.
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    tracing::error!(
        location = location.as_deref(),
        backtrace = backtrace.as_deref(),
        "panicked: {message}"
    );
}

/// UTC with microseconds, from the process's one clock.
impl FormatTime for Clock {
    fn format_time(&self, w: &mut Writer<'_>) -> fmt::Result {
        write!(w, "{:.6}", self.now())
    }
}

/// `{"timestamp":…,"level":…,"target":…,"message":…,…}`: the fields of the event and of all its spans in one flat
/// object; an inner field replaces an outer one of the same name.
struct FlatJson {
    clock: Clock,
}

/// Names of the line itself; a field of the same name is dropped.
const RESERVED: [&str; 3] = ["timestamp", "level", "target"];

impl<S, N> FormatEvent<S, N> for FlatJson
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        ctx: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = BTreeMap::new();
        for span in ctx.event_scope().into_iter().flat_map(Scope::from_root) {
            if let Some(formatted) = span.extensions().get::<FormattedFields<N>>() {
                merge(&mut fields, &formatted.fields);
            }
        }
        let mut formatted = String::new();
        ctx.format_fields(Writer::new(&mut formatted), event)?;
        merge(&mut fields, &formatted);
        for name in RESERVED {
            fields.remove(name);
        }
        let message = fields.remove("message");
        let metadata = event.metadata();
        let mut line = Vec::with_capacity(256);
        let written = (|| {
            let mut json = serde_json::Serializer::new(&mut line);
            let mut map = json.serialize_map(None)?;
            map.serialize_entry("timestamp", &format_args!("{:.6}", self.clock.now()))?;
            map.serialize_entry("level", metadata.level().as_str())?;
            map.serialize_entry("target", metadata.target())?;
            if let Some(message) = message {
                map.serialize_entry("message", &message)?;
            }
            for (name, value) in &fields {
                map.serialize_entry(name, value)?;
            }
            SerializeMap::end(map)
        })();
        written.map_err(|_: serde_json::Error| fmt::Error)?;
        writeln!(writer, "{}", String::from_utf8_lossy(&line))
    }
}

/// Adds the fields of a JSON object as [`JsonFields`] writes it; nothing if a span has no fields.
fn merge(fields: &mut BTreeMap<String, Value>, object: &str) {
    if let Ok(more) = serde_json::from_str::<BTreeMap<String, Value>>(object) {
        fields.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What `log` writes with the clock stopped at the start of 2026.
    fn logged(format: LogFormat, filter: &str, log: impl FnOnce()) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let _in_paused_time = runtime.enter();
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let filter = log_filter(filter).unwrap();
        let subscriber = subscriber(format, filter, false, &clock, move || writer.clone());
        tracing::subscriber::with_default(subscriber, log);
        let bytes = buffer.0.lock().clone();
        String::from_utf8(bytes).unwrap()
    }

    fn one_sync() {
        let span = tracing::info_span!(
            "sync",
            controller = "ttl-controller",
            key = "node-1",
            attempt = 2_u32,
            outcome = tracing::field::Empty
        );
        let _entered = span.enter();
        span.record("outcome", "done");
        tracing::info!(ttl = 15, changed = true, "patched the node's \"ttl\"");
    }

    #[test]
    fn a_json_line_is_flat_and_carries_the_fields_of_its_span() {
        assert_eq!(
            logged(LogFormat::Json, "info", one_sync),
            concat!(
                r#"{"timestamp":"2026-01-01T00:00:00.000000Z","level":"INFO","#,
                r#""target":"controller_runtime::telemetry::tests","message":"patched the node's \"ttl\"","#,
                r#""attempt":2,"changed":true,"controller":"ttl-controller","key":"node-1","outcome":"done","#,
                r#""ttl":15}"#,
                "\n"
            )
        );
    }

    #[test]
    fn a_text_line_carries_the_span_and_its_fields() {
        assert_eq!(
            logged(LogFormat::Text, "info", one_sync),
            "2026-01-01T00:00:00.000000Z  INFO sync{controller=\"ttl-controller\" key=\"node-1\" attempt=2 \
             outcome=\"done\"}: controller_runtime::telemetry::tests: patched the node's \"ttl\" ttl=15 changed=true\n"
        );
    }

    #[test]
    fn an_inner_field_wins_and_none_replaces_the_lines_own() {
        let line = logged(LogFormat::Json, "info", || {
            let outer = tracing::info_span!("outer", key = "outer", level = "mine");
            let _outer = outer.enter();
            let inner = tracing::info_span!("inner", key = "inner");
            let _inner = inner.enter();
            tracing::warn!(timestamp = 0, "two\nlines");
        });
        assert_eq!(
            line,
            concat!(
                r#"{"timestamp":"2026-01-01T00:00:00.000000Z","level":"WARN","#,
                r#""target":"controller_runtime::telemetry::tests","message":"two\nlines","key":"inner"}"#,
                "\n"
            )
        );
    }

    fn kube_and_ours() {
        tracing::error!(target: "kube_client::client::builder", "a whole body");
        tracing::info!(target: "hyper_util::client", "pooling");
        tracing::debug!(target: "controller_runtime::api", "request");
        tracing::info!(target: "controller_runtime::api", "ready");
    }

    fn messages(filter: &str) -> Vec<String> {
        logged(LogFormat::Json, filter, kube_and_ours)
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["message"].to_string())
            .collect()
    }

    #[test]
    fn libraries_are_silent_unless_the_filter_names_them() {
        assert_eq!(messages("info"), ["\"ready\""]);
        assert_eq!(messages(" debug "), ["\"request\"", "\"ready\""]);
        assert_eq!(
            messages("info,kube_client=error"),
            ["\"a whole body\"", "\"ready\""]
        );
        assert_eq!(messages("warn, hyper=info"), ["\"pooling\""]);
        assert_eq!(messages("off"), [""; 0]);
        assert_eq!(
            messages("controller_runtime=debug"),
            ["\"request\"", "\"ready\""],
            "a filter that names one target sets no level for the rest"
        );
    }
}
