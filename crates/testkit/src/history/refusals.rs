//! What was refused is not asked for again, where it can be had otherwise.

use std::collections::HashMap;
use std::time::Duration;

use crate::embedded::{Requests, Verb};

/// For so long after a refusal others may come: of what had been sent before.
const UNDER_WAY: Duration = Duration::from_mins(1);

/// Fails with the first request that does so.
pub(super) fn are_remembered(requests: &Requests) -> Result<(), String> {
    protobuf_is(requests)?;
    streams_are(requests)
}

/// Each process remembers for its lists and watches of a resource, and for all that it reads by name.
fn protobuf_is(requests: &Requests) -> Result<(), String> {
    let mut first = HashMap::new();
    for request in requests
        .iter()
        .filter(|request| matches!(request.code, Some(406 | 415)))
    {
        let resource = if request.verb == Verb::Get {
            ""
        } else {
            &request.resource
        };
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

/// After a stream that was refused, the next list comes in pages.
fn streams_are(requests: &Requests) -> Result<(), String> {
    let mut refused = HashMap::new();
    for request in requests
        .iter()
        .filter(|request| request.lists() && request.name.is_empty())
    {
        let is_stream = request.verb == Verb::Watch;
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
