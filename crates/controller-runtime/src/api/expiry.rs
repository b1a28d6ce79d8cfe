//! When a certificate expires: as much of X.509 as that takes (RFC 5280, 4.1). The TLS library checks its validity.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Tag of the version, which old certificates lack.
const VERSION: u8 = 0xa0;
/// Tag of a time with a two-digit year, for 1950 to 2049.
const UTC_TIME: u8 = 0x17;

/// The end of validity (`notAfter`) of a certificate in DER; `None` if it has no end or does not parse.
pub(super) fn not_after(certificate: &[u8]) -> Option<Timestamp> {
    let (_, certificate, _) = element(certificate)?;
    let (_, to_be_signed, _) = element(certificate)?;
    let mut rest = to_be_signed;
    if rest.first() == Some(&VERSION) {
        rest = element(rest)?.2;
    }
    // Skips serial number, algorithm and issuer.
    for _ in 0..3 {
        rest = element(rest)?.2;
    }
    let (_, validity, _) = element(rest)?;
    let (_, _, rest) = element(validity)?;
    let (tag, time, _) = element(rest)?;
    let time = std::str::from_utf8(time).ok()?;
    let century = match tag {
        UTC_TIME if time < "50" => "20",
        UTC_TIME => "19",
        _ => "",
    };
    let time = DateTime::strptime("%Y%m%d%H%M%SZ", format!("{century}{time}")).ok()?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// Splits `der` into tag and content of its first element, and the rest.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, short], rest) = der.split_first_chunk()?;
    let (length, rest) = if short < 0x80 {
        (usize::from(short), rest)
    } else {
        let (long, rest) = rest.split_at_checked(usize::from(short & 0x7f))?;
        let longer = |sum: usize, byte: &u8| sum.checked_mul(256)?.checked_add(usize::from(*byte));
        (long.iter().try_fold(0, longer)?, rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use rstest::rstest;

    use super::*;

    fn until(year: i32) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.not_after = date_time_ymd(year, 2, 3);
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[rstest]
    #[case::past(1970, Some("1970-02-03T00:00:00Z"))]
    #[case::now(2026, Some("2026-02-03T00:00:00Z"))]
    #[case::last_of_two_digits(2049, Some("2049-02-03T00:00:00Z"))]
    #[case::first_of_four_digits(2050, Some("2050-02-03T00:00:00Z"))]
    #[case::far(9998, Some("9998-02-03T00:00:00Z"))]
    fn the_end_of_the_validity_is_read(#[case] year: i32, #[case] expected: Option<&str>) {
        let expected = expected.map(|time| time.parse::<Timestamp>().unwrap());
        assert_eq!(not_after(&until(year)), expected);
    }

    /// RFC 5280 spells "no end" this way.
    #[test]
    fn a_certificate_without_an_end_has_none() {
        let mut params = CertificateParams::default();
        let end = date_time_ymd(9999, 12, 31) + std::time::Duration::from_secs(86_399);
        params.not_after = end;
        let key = KeyPair::generate().unwrap();
        assert_eq!(not_after(params.self_signed(&key).unwrap().der()), None);
    }

    #[test]
    fn half_a_certificate_has_none() {
        let whole = until(2026);
        for length in 0..whole.len() {
            assert_eq!(not_after(&whole[..length]), None, "{length} bytes");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..64), at in 0_usize..400, byte: u8) {
            not_after(&bytes);
            let mut changed = until(2026);
            let at = at % changed.len();
            changed[at] = byte;
            not_after(&changed);
        }
    }
}
