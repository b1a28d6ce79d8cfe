//! Reads of an answer's body, `Status` and `Date`.

use controller_core::cache::protobuf;
use http::header::DATE;
use http::{HeaderMap, Response};
use http_body_util::BodyExt;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use kube::core::Status;

use super::http::{AnswerBody, error_of};

/// The whole body of a success; any other answer becomes an error.
pub(crate) async fn body_of(response: Response<AnswerBody>) -> kube::Result<bytes::Bytes> {
    let code = response.status();
    let body = response.into_body().collect().await.map_err(error_of)?.to_bytes();
    if code.is_success() {
        return Ok(body);
    }
    let status = status_of(&body).unwrap_or_else(|| {
        let text = String::from_utf8_lossy(&body).into_owned();
        Status::failure(&text, "no Status in the answer").with_code(code.as_u16())
    });
    Err(kube::Error::Api(Box::new(status)))
}

/// The `Status` in the body of a failure, in either encoding. Other JSON, such as a proxy's, has no code and gives
/// `None`.
pub(crate) fn status_of(body: &[u8]) -> Option<Status> {
    let status: Option<Status> = if protobuf::is_enveloped(body) {
        protobuf::read_status(body).ok()
    } else {
        serde_json::from_slice(body).ok()
    };
    status.filter(|status| status.code != 0)
}

pub(crate) fn date_of(headers: &HeaderMap) -> Option<Timestamp> {
    let text = headers.get(DATE)?.to_str().ok()?;
    DateTimeParser::new().parse_timestamp(text).ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use rstest::rstest;

    use super::*;
    use crate::api::http::whole;

    #[rstest]
    #[case::a_wrong_weekday("Sun, 06 Nov 2026 08:49:37 GMT", None)]
    #[case::as_http_has_it("Fri, 06 Nov 2026 08:49:37 GMT", Some("2026-11-06T08:49:37Z"))]
    #[case::nonsense("yesterday", None)]
    #[case::empty("", None)]
    fn a_date_header_is_read_or_ignored(#[case] header: &'static str, #[case] expected: Option<&str>) {
        let mut headers = HeaderMap::new();
        headers.insert(DATE, HeaderValue::from_static(header));
        let expected = expected.map(|text| text.parse::<Timestamp>().unwrap());
        assert_eq!(date_of(&headers), expected);
    }

    #[rstest]
    #[case::of_the_api_server(r#"{"kind":"Status","code":409,"message":"m","reason":"Conflict"}"#, 409, "m")]
    #[case::json_of_a_proxy(r#"{"error":"upstream"}"#, 504, r#"{"error":"upstream"}"#)]
    #[case::text_of_a_proxy("no upstream", 504, "no upstream")]
    #[case::nothing("", 504, "")]
    #[tokio::test]
    async fn a_failure_has_the_code_of_its_status_or_else_of_the_answer(
        #[case] body: &str,
        #[case] code: u16,
        #[case] message: &str,
    ) {
        let mut answer = Response::new(whole(body.as_bytes().to_vec()));
        *answer.status_mut() = http::StatusCode::GATEWAY_TIMEOUT;
        let Err(kube::Error::Api(status)) = body_of(answer).await else {
            panic!("it failed");
        };
        assert_eq!((status.code, &*status.message), (code, message));
    }

    #[test]
    fn an_answer_without_a_date_has_none() {
        assert_eq!(date_of(&HeaderMap::new()), None);
    }
}
