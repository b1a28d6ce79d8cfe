//! How many objects a page of a list has: as many as make up 2.5 MiB, as far as the page before tells.
//!
//! A page is in memory as a whole, several times over, beside the views that stay.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Uri};
use http_body::Frame;
use kube::client::Body;
use tower::BoxError;

/// Of pods of 11 KB these are 2.2 MiB. With client-go's 500 a third of the memory of 150,000 pods was gaps of pages.
pub(super) const MOST: u32 = 200;
/// Nobody knows how large the objects are; the largest that etcd takes make up 30 MiB then.
const FIRST: u64 = 20;
/// What a page is to come to.
const BYTES: u64 = 5 << 19;

/// The size of the next page.
#[derive(Clone, Debug)]
pub(super) struct PageSize(Arc<AtomicU64>);

/// A page that is being read.
pub(super) struct Counted {
    body: Body,
    bytes: u64,
    /// How many objects it has at most.
    limit: u64,
    next: PageSize,
}

impl Default for PageSize {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(FIRST)))
    }
}

impl PageSize {
    /// Has a list ask for as many as the next page is to have; how many that are. None for any other request.
    pub(super) fn limit<B>(&self, request: &mut Request<B>) -> Option<u64> {
        let asked = request.uri().to_string();
        let most = format!("limit={MOST}");
        if !asked.contains(&most) {
            return None;
        }
        // Only a page that another follows was full, and tells how large objects are.
        let follows = asked.contains("continue=");
        let limit = if follows {
            self.0.load(Ordering::Relaxed)
        } else {
            FIRST
        };
        *request.uri_mut() = asked
            .replacen(&most, &format!("limit={limit}"), 1)
            .parse::<Uri>()
            .ok()?;
        Some(limit)
    }

    /// The answer to such a list.
    pub(super) fn count(&self, body: Body, limit: u64) -> Counted {
        Counted {
            body,
            bytes: 0,
            limit,
            next: self.clone(),
        }
    }

    /// A page of at most `limit` objects had so many bytes.
    fn learn(&self, limit: u64, bytes: u64) {
        let fitting = BYTES.saturating_mul(limit) / bytes.max(1);
        self.0.store(fitting.clamp(1, MOST.into()), Ordering::Relaxed);
    }
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                self.bytes += u64::try_from(bytes).unwrap_or(u64::MAX);
            }
            None => self.next.learn(self.limit, self.bytes),
            Some(Err(_)) => {}
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::of_pods(20, 20 * 11_000, 200)]
    #[case::of_large_objects(20, 20 * 250_000, 10)]
    #[case::of_the_largest(10, 10 * 1_500_000, 1)]
    #[case::of_nothing(20, 0, 200)]
    fn a_page_has_as_many_objects_as_fit(#[case] limit: u64, #[case] bytes: u64, #[case] expected: u64) {
        let size = PageSize::default();
        size.learn(limit, bytes);
        for (token, expected) in [("", 20), ("&continue=a", expected)] {
            let of = |limit| format!("https://127.0.0.1/api/v1/pods?&limit={limit}{token}");
            let mut request = Request::get(of(200)).body(()).unwrap();
            assert_eq!(size.limit(&mut request), Some(expected));
            assert_eq!(request.uri().to_string(), of(expected));
        }
    }

    #[test]
    fn other_requests_stay_as_they_are() {
        let mut request = Request::get("/api/v1/pods?watch=true").body(()).unwrap();
        assert_eq!(PageSize::default().limit(&mut request), None);
        assert_eq!(request.uri().to_string(), "/api/v1/pods?watch=true");
    }
}
