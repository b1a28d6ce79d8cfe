//! Query parameters of lists, watches and gets, and their allowed combinations.

use std::num::{IntErrorKind, ParseIntError};
use std::time::Duration;

use axum::extract::Query;
use http::Uri;

use super::failure::StatusError;
use super::resource::Resource;
use super::selector::{FieldSelector, LabelSelector};

#[derive(Clone, Debug, Default)]
pub(super) struct Parameters(Vec<(String, String)>);

#[derive(Clone, Debug)]
pub(super) struct ListOptions {
    pub(super) labels: LabelSelector,
    pub(super) fields: FieldSelector,
    pub(super) limit: usize,
    pub(super) resume: Option<Continue>,
    /// `None` if the client leaves the version to the server.
    pub(super) version: Option<u64>,
    pub(super) version_match: Option<VersionMatch>,
    pub(super) bookmarks: bool,
    pub(super) initial_events: bool,
    pub(super) timeout: Option<Duration>,
}

/// The meaning of a list's `resourceVersion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VersionMatch {
    Exact,
    NotOlderThan,
}

/// A decoded `continue` token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Continue {
    /// Version of the first page; `None` continues at the latest version.
    pub(super) version: Option<u64>,
    /// Last key of the previous page.
    pub(super) after: String,
}

impl Parameters {
    pub(super) fn of(uri: &Uri) -> Self {
        Query::try_from_uri(uri).map_or_else(|_| Self::default(), |Query(pairs)| Self(pairs))
    }

    /// The value of a parameter; empty if absent.
    pub(super) fn get(&self, name: &str) -> &str {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .map_or("", |(_, value)| value)
    }

    /// True if a flag is set to anything but `false` and `0`.
    pub(super) fn flag(&self, name: &str) -> bool {
        let value = self.get(name);
        self.has(name) && value != "0" && !value.eq_ignore_ascii_case("false")
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<i64>, StatusError> {
        if !self.has(name) {
            return Ok(None);
        }
        let text = self.get(name);
        text.parse().map(Some).map_err(|error: ParseIntError| {
            let why = match error.kind() {
                IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            StatusError::bad_request(format!("strconv.ParseInt: parsing \"{text}\": {why}"))
        })
    }
}

impl ListOptions {
    pub(super) fn parse(resource: &Resource, query: &Parameters, watch: bool) -> Result<Self, StatusError> {
        let version_match = match query.get("resourceVersionMatch") {
            "Exact" => Some(VersionMatch::Exact),
            "NotOlderThan" => Some(VersionMatch::NotOlderThan),
            _ => None,
        };
        let version = version(query.get("resourceVersion"), watch)?;
        let resume = match query.get("continue") {
            "" => None,
            token => Some(Continue::parse(token)?),
        };
        if resume.is_some() && version.is_some_and(|version| version > 0) {
            return Err(StatusError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let at_least_zero = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
        let limit = at_least_zero(query.number("limit")?).unwrap_or_default();
        let timeout = at_least_zero(query.number("timeoutSeconds")?).filter(|seconds| *seconds > 0);
        // A watch without a version starts with the existing objects, as a streaming list does.
        let from_anywhere = watch && version.is_none_or(|version| version == 0);
        let initial_events = if query.has("sendInitialEvents") {
            query.flag("sendInitialEvents")
        } else {
            from_anywhere
        };
        Ok(Self {
            labels: LabelSelector::parse(query.get("labelSelector"))?,
            fields: FieldSelector::parse(resource, query.get("fieldSelector"))?,
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            resume,
            version,
            version_match,
            bookmarks: query.flag("allowWatchBookmarks"),
            initial_events,
            timeout: timeout.map(Duration::from_secs),
        })
    }

    /// True if the selectors exclude nothing.
    pub(super) fn selects_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }
}

/// The minimum version that a get asks for.
pub(super) fn version_of_get(query: &Parameters) -> Result<Option<u64>, StatusError> {
    version(query.get("resourceVersion"), true)
}

impl Continue {
    fn parse(token: &str) -> Result<Self, StatusError> {
        let parse = || {
            let (version, after) = token.strip_prefix("v1:")?.split_once(':')?;
            let version = match version {
                "latest" => None,
                version => Some(version.parse().ok()?),
            };
            Some(Self {
                version,
                after: after.to_owned(),
            })
        };
        parse().ok_or_else(|| StatusError::bad_request("invalid continue token: continue key is not valid"))
    }

    pub(super) fn to_token(&self) -> String {
        match self.version {
            Some(version) => format!("v1:{version}:{}", self.after),
            None => format!("v1:latest:{}", self.after),
        }
    }
}

fn version(text: &str, single: bool) -> Result<Option<u64>, StatusError> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        let message = format!(
            "resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax"
        );
        // kube-apiserver answers lists with 400, gets and watches with 500.
        if single {
            StatusError::new(500, "", message)
        } else {
            StatusError::bad_request(format!("invalid resource version: {message}"))
        }
    })
}
