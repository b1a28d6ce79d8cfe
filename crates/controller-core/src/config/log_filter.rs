//! What is logged.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{Directive, LevelFilter};

/// Libraries that are silent unless the filter names them. kube logs whole bodies and every 5xx as an error; what
/// matters of it is logged here, classified and once.
const SILENT: [&str; 5] = [
    "kube_client=off",
    "kube_runtime=off",
    "hyper=off",
    "rustls=off",
    "tower=off",
];

/// A filter that is none.
#[derive(Debug, thiserror::Error)]
#[error(
    "log filter {filter:?}: {directive:?} is neither a level (off, error, warn, info, debug, trace) nor target=level"
)]
pub struct BadLogFilter {
    /// The whole filter.
    pub filter: String,
    /// The part that is wrong.
    pub directive: String,
}

/// Reads `filter`: a level or a comma-separated list of `target=level`.
pub(crate) fn log_filter(filter: &str) -> Result<EnvFilter, BadLogFilter> {
    let wrong = |directive: &str| BadLogFilter {
        filter: filter.to_owned(),
        directive: directive.to_owned(),
    };
    if filter.trim().is_empty() {
        return Err(wrong(filter));
    }
    let wanted = filter.split(',').map(str::trim).filter(|part| !part.is_empty());
    // A later directive replaces an earlier one of the same target, so the user's word is the last.
    SILENT
        .into_iter()
        .chain(wanted)
        .try_fold(EnvFilter::default(), |env, part| {
            // A bare word would be taken for a target at level trace: `inof` would silence everything else.
            if !part.contains(['=', '[', ':']) && part.parse::<LevelFilter>().is_err() {
                return Err(wrong(part));
            }
            let directive: Directive = part.parse().map_err(|_| wrong(part))?;
            Ok(env.add_directive(directive))
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
        ] {
            assert_eq!(
                log_filter(filter).unwrap_err().to_string(),
                format!(
                    "log filter {filter:?}: {directive:?} is neither a level (off, error, warn, info, debug, trace) \
                     nor target=level"
                )
            );
        }
        log_filter("info,controller_core::api=debug,[sync{key=a}]=trace").unwrap();
    }
}
