//! The meaning of an error of the client.

use std::io;

use controller_core::api::{AnswerClass, Verb};

/// The meaning of `error`, the answer to a request with `verb`.
pub fn classify(verb: Verb, error: &kube::Error) -> AnswerClass {
    match error {
        kube::Error::Api(status) => AnswerClass::of(verb, status),
        // Nothing was sent: the request could not be built or signed.
        kube::Error::BuildRequest(_) | kube::Error::Auth(_) => AnswerClass::retry(false),
        error => AnswerClass::retry(verb.writes() && !never_connected(error)),
    }
}

/// True if no connection was made, so that nothing was sent.
pub(crate) fn never_connected(error: &kube::Error) -> bool {
    causes_of(error).any(|cause| {
        let http = cause.downcast_ref::<hyper_util::client::legacy::Error>();
        let io = cause.downcast_ref::<io::Error>();
        http.is_some_and(hyper_util::client::legacy::Error::is_connect)
            || io.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    })
}

/// `error` and its chain of sources.
pub(crate) fn causes_of<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: AnswerClass = AnswerClass::retry(false);
    const UNKNOWN: AnswerClass = AnswerClass::retry(true);

    #[test]
    fn a_write_that_nobody_took_did_not_happen() {
        let io = |kind| kube::Error::Service(io::Error::from(kind).into());
        assert_eq!(
            classify(Verb::Delete, &io(io::ErrorKind::ConnectionRefused)),
            REFUSED
        );
        assert_eq!(
            classify(Verb::Delete, &io(io::ErrorKind::ConnectionReset)),
            UNKNOWN
        );
    }

    #[test]
    fn the_fate_of_a_write_is_unknown_when_the_connection_broke() {
        let broken = kube::Error::Service("connection reset".into());
        assert_eq!(classify(Verb::Patch, &broken), UNKNOWN);
        assert_eq!(classify(Verb::List, &broken), REFUSED);
    }
}
