//! The log filter.

use tracing_subscriber::filter::{LevelFilter, Targets};

/// Libraries that are silent unless the filter names them. kube logs whole bodies and every 5xx as an error; this crate
/// logs the important failures itself, classified and once.
const SILENT: [&str; 5] = ["kube_client", "kube_runtime", "hyper", "rustls", "tower"];

/// A log filter that cannot be parsed.
#[derive(Debug, thiserror::Error)]
#[error(
    "log filter {filter:?}: {directive:?} is neither a level (off, error, warn, info, debug, trace) nor target=level"
)]
pub struct BadLogFilter {
    /// The whole filter.
    pub filter: String,
    /// The malformed part.
    pub directive: String,
}

/// Reads `filter`: a level or a comma-separated list of `target=level`.
pub fn log_filter(filter: &str) -> Result<Targets, BadLogFilter> {
    let wrong = |directive: &str| BadLogFilter {
        filter: filter.to_owned(),
        directive: directive.to_owned(),
    };
    if filter.trim().is_empty() {
        return Err(wrong(filter));
    }
    let silent = SILENT.map(|target| (target, LevelFilter::OFF));
    let mut wanted = filter.split(',').map(str::trim).filter(|part| !part.is_empty());
    // A later level replaces an earlier one of the same target, so the user's filter overrides SILENT.
    wanted.try_fold(Targets::new().with_targets(silent), |targets, part| {
        let level = |text: &str| text.parse::<LevelFilter>().map_err(|_| wrong(part));
        // Other targets would match no event, and an empty level would parse as error.
        let is_target = |c: char| c.is_alphanumeric() || "_:".contains(c);
        match part.split_once('=') {
            None => Ok(targets.with_default(level(part)?)),
            Some((target, text))
                if !target.is_empty() && !text.is_empty() && target.chars().all(is_target) =>
            {
                Ok(targets.with_target(target, level(text)?))
            }
            Some(_) => Err(wrong(part)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_filter_is_named() {
        for (filter, directive) in [
            ("inof", "inof"),
            ("info,controller_core=loud", "controller_core=loud"),
            ("", ""),
            (" ", " "),
            ("info,!", "!"),
            ("info,controller_core", "controller_core"),
            ("=info", "=info"),
            ("info,a=", "a="),
            ("a=b=c", "a=b=c"),
            ("info,[sync{key=a}]=trace", "[sync{key=a}]=trace"),
        ] {
            assert_eq!(
                log_filter(filter).unwrap_err().to_string(),
                format!(
                    "log filter {filter:?}: {directive:?} is neither a level (off, error, warn, info, debug, trace) \
                     nor target=level"
                )
            );
        }
        log_filter("info,controller_core::api=debug").unwrap();
    }
}
