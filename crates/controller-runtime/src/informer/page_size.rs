//! How many objects a page of a list has: as many as make up 2.5 MiB, judged by the page before.
//!
//! A page is in memory as a whole, next to the views that stay.

/// Of pods of 11 KB these are 2.2 MiB. With client-go's 500 a third of the memory of 150,000 pods was gaps of pages.
const MOST: u32 = 200;
/// The size of the objects is unknown; the largest that etcd takes then make up 30 MiB.
const FIRST: u32 = 20;
/// Target size of a page.
const BYTES: u64 = 5 << 19;

/// The size of the next page.
#[derive(Debug)]
pub(super) struct PageSize(u32);

impl Default for PageSize {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl PageSize {
    /// How many objects the next page may have.
    pub(super) const fn limit(&self, follows: bool) -> u32 {
        // Only a page that another follows was full, and shows how large the objects are.
        if follows { self.0 } else { FIRST }
    }

    /// A page of at most `limit` objects had this many bytes.
    pub(super) fn adapt(&mut self, limit: u32, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX).max(1);
        let fitting = BYTES.saturating_mul(limit.into()) / bytes;
        self.0 = u32::try_from(fitting).unwrap_or(MOST).clamp(1, MOST);
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
    fn a_page_has_as_many_objects_as_fit(#[case] limit: u32, #[case] bytes: usize, #[case] expected: u32) {
        let mut size = PageSize::default();
        size.adapt(limit, bytes);
        assert_eq!(size.limit(true), expected);
        assert_eq!(size.limit(false), FIRST);
    }
}
