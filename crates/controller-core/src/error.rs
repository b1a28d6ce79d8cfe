//! One way to print an error: each message of the chain once, outermost first.

use std::error::Error;
use std::fmt;

/// Prints `error` and its sources, joined by `: `.
///
/// Some libraries repeat their source's text in their own message; a message that the one printed before already
/// contains is left out.
pub struct Chain<'a>(pub &'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = self.0.to_string();
        f.write_str(&said)?;
        let mut next = self.0.source();
        while let Some(error) = next {
            let message = error.to_string();
            if !said.contains(&message) {
                write!(f, ": {message}")?;
                said = message;
            }
            next = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Link {
        text: &'static str,
        #[source]
        source: Option<Box<Link>>,
    }

    fn link(text: &'static str, source: Option<Link>) -> Link {
        Link {
            text,
            source: source.map(Box::new),
        }
    }

    #[test]
    fn each_message_is_printed_once() {
        let error = link(
            "read the lease",
            Some(link("connect", Some(link("connection refused", None)))),
        );
        assert_eq!(
            Chain(&error).to_string(),
            "read the lease: connect: connection refused"
        );
    }

    #[test]
    fn a_source_repeated_by_its_parent_is_left_out() {
        let error = link(
            "HyperError: reset",
            Some(link("reset", Some(link("os error 104", None)))),
        );
        assert_eq!(Chain(&error).to_string(), "HyperError: reset: os error 104");
    }
}
