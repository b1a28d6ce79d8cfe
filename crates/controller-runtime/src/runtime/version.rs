//! The API server's version of Kubernetes, and whether the controllers were tested with it (CORE-18).

use std::time::Duration;

use controller_core::api::AnswerClass;
use controller_core::version::{SUPPORTED_KUBERNETES, ServerVersion, supported_kubernetes};

use crate::clock::Clock;
use crate::sender::Sender;

/// Wait before an API server that gave no answer is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// The version of the API server, if the controllers were not tested with it. Waits for an API server that does not
/// answer; does not repeat a refused query.
pub(super) async fn untested(sender: &Sender, clock: &Clock) -> Option<String> {
    loop {
        let failed = match sender.ask(&ServerVersion, None).await.0 {
            Ok(minor) => {
                let version = format!("1.{}", minor?);
                return (!SUPPORTED_KUBERNETES.contains(&&*version)).then_some(version);
            }
            Err(failed) => failed,
        };
        let wait = match failed.outcome() {
            AnswerClass::Throttled(wait) => wait,
            AnswerClass::Retry { wait, .. } => wait.max(ASK_AGAIN),
            _ => return None,
        };
        clock.sleep(wait).await;
    }
}

pub(super) async fn warn_if_untested(sender: Sender, clock: Clock) {
    if let Some(version) = untested(&sender, &clock).await {
        let tested = supported_kubernetes();
        tracing::warn!("not tested with {version}: this release is for Kubernetes {tested}");
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use controller_core::config::Encoding;
    use http::Response;
    use kube::client::Body;
    use parking_lot::Mutex;

    use super::*;
    use crate::sender::Caller;

    /// What is found if the API server gives these answers in turn, and after how long.
    async fn found(answers: &[(u16, &str)]) -> (Option<String>, Duration) {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let mut answers: Vec<_> = answers
            .iter()
            .map(|(code, body)| (*code, (*body).to_owned()))
            .collect();
        answers.reverse();
        let answers = Arc::new(Mutex::new(answers));
        let service = tower::service_fn(move |request: http::Request<Body>| {
            assert_eq!(request.uri().path(), "/version");
            let (code, body) = answers.lock().pop().expect("it is asked once too often");
            let response = Response::builder()
                .status(code)
                .body(Body::from(body.into_bytes()));
            async move { Ok::<_, Infallible>(response.unwrap()) }
        });
        let sender = Sender::new(
            kube::Client::new(service, "default"),
            Caller::new(clock.clone()),
            Encoding::Json,
        );
        let start = clock.instant();
        (untested(&sender, &clock).await, clock.instant() - start)
    }

    #[tokio::test(start_paused = true)]
    async fn a_version_that_was_not_tested_is_found() {
        for (info, expected) in [
            (r#"{"major":"1","minor":"36"}"#, None),
            (r#"{"major":"1","minor":"35"}"#, None),
            (r#"{"major":"1","minor":"37+"}"#, None),
            (r#"{"major":"1","minor":"38"}"#, Some("1.38")),
            (r#"{"major":"1","minor":"38+"}"#, Some("1.38")),
            (r#"{"major":"1","minor":"34"}"#, Some("1.34")),
            (r#"{"major":"1","minor":""}"#, None),
            ("{}", None),
        ] {
            let expected = expected.map(str::to_owned);
            assert_eq!(found(&[(200, info)]).await, (expected, Duration::ZERO), "{info}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_is_away_is_asked_until_it_answers() {
        let answers = [
            (503, "away"),
            (500, "away"),
            (200, r#"{"major":"1","minor":"38"}"#),
        ];
        let expected = (Some("1.38".to_owned()), Duration::from_secs(20));
        assert_eq!(found(&answers).await, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_refuses_to_tell_is_not_asked_again() {
        let refused = r#"{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"forbidden: User \"u\" cannot get path \"/version\""}"#;
        assert_eq!(found(&[(403, refused)]).await, (None, Duration::ZERO));
    }
}
