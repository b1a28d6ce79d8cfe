//! Refused forms of a request are not requested again if there is another form.

use std::collections::HashMap;
use std::time::Duration;

use embedded_apiserver::{RecordedRequest, RecordedRequests, RequestVerb};

/// Time after a refusal in which requests that were already on the way may be refused.
const UNDER_WAY: Duration = Duration::from_mins(1);

/// Fails with the first request for a refused form.
pub(super) fn are_remembered(requests: &RecordedRequests) -> Result<(), String> {
    protobuf_is(requests)?;
    streams_are(requests)?;
    streams_are_not_given_up(requests)
}

/// Each process remembers refusals for what an informer reads of a resource, and for all its other reads: by name, or of
/// one namespace.
fn protobuf_is(requests: &RecordedRequests) -> Result<(), String> {
    let mut first = HashMap::new();
    for request in requests
        .iter()
        .filter(|request| matches!(request.code, Some(406 | 415)))
    {
        let is_informers = request.verb != RequestVerb::Get && request.namespace.is_empty();
        let resource = if is_informers { &*request.resource } else { "" };
        let since = *first
            .entry((&request.user_agent, resource))
            .or_insert(request.arrived);
        if request.arrived > since + UNDER_WAY {
            return Err(format!(
                "{} asks again for protobuf: {request}",
                request.user_agent
            ));
        }
    }
    Ok(())
}

/// After a refused stream, the next list comes in pages.
fn streams_are(requests: &RecordedRequests) -> Result<(), String> {
    let mut refused = HashMap::new();
    for request in requests
        .iter()
        .filter(|request| request.lists() && request.name.is_empty())
    {
        let is_stream = request.verb == RequestVerb::Watch;
        let is_refused = is_stream && matches!(request.code, Some(400 | 403 | 404 | 422 | 500));
        let before = refused.insert((&request.user_agent, &request.resource), is_refused);
        if is_stream && before == Some(true) {
            return Err(format!(
                "{} asks again for a stream: {request}",
                request.user_agent
            ));
        }
    }
    Ok(())
}

/// The form in which a list came.
#[derive(Default)]
enum Came {
    #[default]
    Never,
    InPages,
    /// As a stream, answered with this code.
    Streamed(Option<u16>),
}

/// The streams that a process requested.
#[derive(Default)]
struct Streams {
    /// The form of the last list.
    last: Came,
    /// Number of streams in a row that led to pages.
    ended: u32,
    are_refused: bool,
}

/// Lists come in pages, without a stream before, only if a stream was refused or two in a row led to pages.
fn streams_are_not_given_up(requests: &RecordedRequests) -> Result<(), String> {
    let mut known: HashMap<_, Streams> = HashMap::new();
    // Reads past the watch have other sizes than an informer's first page.
    let is_first = |request: &&RecordedRequest| {
        let is_page = request.query.contains("limit=20") && !request.query.contains("continue=");
        let is_of_an_informer = is_page || request.verb == RequestVerb::Watch;
        request.lists() && is_of_an_informer && !matches!(request.code, Some(406 | 415))
    };
    for request in requests.iter().filter(is_first) {
        let key = (&request.user_agent, &request.group, &request.resource);
        let known = known.entry(key).or_default();
        let is_stream = request.verb == RequestVerb::Watch;
        let now = if is_stream {
            Came::Streamed(request.code)
        } else {
            Came::InPages
        };
        match (is_stream, std::mem::replace(&mut known.last, now)) {
            (true, Came::Streamed(Some(200))) => known.ended = 0,
            (false, Came::Streamed(Some(200))) => known.ended += 1,
            (false, Came::Streamed(Some(400 | 422))) => known.are_refused = true,
            (false, Came::Never | Came::InPages) if !known.are_refused && known.ended < 2 => {
                let who = &request.user_agent;
                return Err(format!(
                    "{who} asks for pages although streams are served: {request}"
                ));
            }
            _ => {}
        }
    }
    Ok(())
}
