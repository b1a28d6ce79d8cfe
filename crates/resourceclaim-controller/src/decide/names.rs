//! Names of the claims that we make (RC-3).
//!
//! Upstream's names end in five random characters. Ours end in a hash of what the claim is for: a second create of the
//! same claim, also by another process or after a kill in between, meets the first one.

use std::collections::HashSet;

use controller_core::meta::Uid;

use super::MAX_BASE_LEN;

/// The characters of the hash: those of Kubernetes' generated names, without vowels and letters that look alike.
/// Source: `apimachinery/pkg/util/rand`, `alphanums`.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// Characters of the hash.
const HASH_LEN: u32 = 5;
/// Most names of an entry that are compared with the recorded one.
const NAMES_TRIED: u32 = 10_000;
const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// `<claimant>-<entry>-`, at most [`MAX_BASE_LEN`] bytes: a longer one is cut, both parts in proportion, and neither
/// part ends in `.` or `-`, which a name must not have before a dash.
pub fn base_name(claimant: &str, entry: &str) -> String {
    let room = MAX_BASE_LEN - 2;
    let length = claimant.len() + entry.len();
    if length <= room {
        return format!("{claimant}-{entry}-");
    }
    // A long pod name leaves its entry at least a letter, and vice versa.
    let of_entry = (entry.len() * room / length).clamp(1, room - 1).min(entry.len());
    let of_claimant = (room - of_entry).min(claimant.len() * room / length).max(1);
    format!("{}-{}-", cut(claimant, of_claimant), cut(entry, of_entry))
}

/// The names of the claims for one entry of one object: base and hash, for the first claim and for each later one.
///
/// The hash is FNV-1a of 64 bit over `<uid>/<entry>/<n in decimal>`, finished with `MurmurHash3`'s `fmix64`, so that
/// every bit counts. Its remainder by 27⁵ is written in the characters of Kubernetes' generated names
/// (`bcdfghjklmnpqrstvwxz2456789`), the lowest digit first. The hash must never change: other versions of this program
/// have to find the same name.
#[derive(Debug)]
pub struct Names {
    base: String,
    /// The hash up to the number.
    stem: u64,
}

/// The names of the first claims for an entry.
#[derive(Debug)]
pub struct First {
    names: Names,
    digests: HashSet<u64>,
}

impl Names {
    /// The names for this entry of the object with this name and uid.
    pub fn of(claimant: &str, uid: &Uid, entry: &str) -> Self {
        Self {
            base: base_name(claimant, entry),
            stem: fnv_1a(OFFSET_BASIS, format!("{uid}/{entry}/").as_bytes()),
        }
    }

    /// The name of the `n`th claim, from 0.
    pub fn name(&self, n: u32) -> String {
        let mut digest = self.digest(n);
        let mut name = self.base.clone();
        for _ in 0..HASH_LEN {
            name.push(char::from(ALPHABET[digit(digest % 27)]));
            digest /= 27;
        }
        name
    }

    /// The index, from 0, of the claim with this name; `None` if it is not among the first `NAMES_TRIED`.
    pub fn number(&self, name: &str) -> Option<u32> {
        let digest = self.digest_in(name)?;
        (0..NAMES_TRIED).find(|n| self.digest(*n) == digest)
    }

    /// The names of the first `n` claims.
    pub fn first(self, n: u32) -> First {
        let digests = (0..n).map(|n| self.digest(n)).collect();
        First { names: self, digests }
    }

    fn digest(&self, n: u32) -> u64 {
        let mut digits = [0; 10];
        let (mut rest, mut first) = (n, digits.len());
        while rest > 0 || first == digits.len() {
            first -= 1;
            digits[first] = b'0' + u8::try_from(rest % 10).unwrap_or_default();
            rest /= 10;
        }
        fmix64(fnv_1a(self.stem, &digits[first..])) % 27_u64.pow(HASH_LEN)
    }

    /// The digest that ends `name`, if it has the base and may be one of ours.
    fn digest_in(&self, name: &str) -> Option<u64> {
        let hash = name.strip_prefix(&self.base)?.as_bytes();
        let mut digits = hash.iter().rev();
        let place = |byte: &u8| ALPHABET.iter().position(|of| of == byte);
        let digest = digits.try_fold(0, |digest, byte| Some(digest * 27 + place(byte)? as u64))?;
        (hash.len() == HASH_LEN as usize).then_some(digest)
    }
}

impl First {
    pub fn contains(&self, name: &str) -> bool {
        let digest = self.names.digest_in(name);
        digest.is_some_and(|digest| self.digests.contains(&digest))
    }
}

/// The name of the `n`th claim for an entry of the object with this uid: see [`Names`].
pub fn claim_name(claimant: &str, uid: &Uid, entry: &str, n: u32) -> String {
    Names::of(claimant, uid, entry).name(n)
}

fn digit(remainder: u64) -> usize {
    usize::try_from(remainder).unwrap_or_default()
}

fn cut(text: &str, length: usize) -> &str {
    text[..text.floor_char_boundary(length)].trim_end_matches(['.', '-'])
}

/// Continues `hash`, which is [`OFFSET_BASIS`] before the first byte.
fn fnv_1a(hash: u64, bytes: &[u8]) -> u64 {
    const PRIME: u64 = 0x0100_0000_01b3;
    bytes
        .iter()
        .fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

const fn fmix64(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::empty("", 0xcbf2_9ce4_8422_2325)]
    #[case::a("a", 0xaf63_dc4c_8601_ec8c)]
    #[case::foobar("foobar", 0x8594_4171_f739_67e8)]
    fn the_hash_is_the_fnv_1a_of_its_authors(#[case] text: &str, #[case] hash: u64) {
        assert_eq!(fnv_1a(OFFSET_BASIS, text.as_bytes()), hash);
    }

    #[test]
    fn a_name_tells_its_number() {
        let names = || Names::of("pod", &Uid::from("u"), "gpu");
        for n in [0, 1, 9, 10, 99, 100, 9_999] {
            let name = names().name(n);
            assert_eq!(names().number(&name), Some(n), "{name}");
            assert!(!names().first(n).contains(&name), "{name}");
            assert!(names().first(n + 1).contains(&name), "{name}");
        }
        let none = [
            &names().name(10_000),
            "pod-gpu-",
            "pod-gpu-aaaaa",
            "pod-gpu-bbbbbb",
            "other",
        ];
        for name in none {
            assert_eq!(names().number(name), None, "{name}");
        }
    }

    #[rstest]
    #[case::short("pod", "gpu", "pod-gpu-")]
    #[case::as_long_as_fits(&"p".repeat(50), "gpu-1", &format!("{}-gpu-1-", "p".repeat(50)))]
    #[case::a_byte_too_long(&"p".repeat(51), "gpu-1", &format!("{}-gpu-", "p".repeat(50)))]
    #[case::both_halved(&"p".repeat(110), &"e".repeat(55), &format!("{}-{}-", "p".repeat(36), "e".repeat(18)))]
    #[case::a_dot_at_the_cut(&format!("{}.{}", "a".repeat(53), "b".repeat(50)), "x", &format!("{}-x-", "a".repeat(53)))]
    #[case::dots_and_dashes_at_the_cut(&format!("{}-.{}", "a".repeat(52), "b".repeat(50)), "x", &format!("{}-x-", "a".repeat(52)))]
    #[case::a_long_pod_leaves_a_letter(&"p".repeat(253), "entry", &format!("{}-e-", "p".repeat(53)))]
    #[case::a_long_entry_leaves_a_letter("p", &"e".repeat(63), &format!("p-{}-", "e".repeat(54)))]
    fn a_base_is_cut_in_proportion(#[case] pod: &str, #[case] entry: &str, #[case] base: &str) {
        assert_eq!(base_name(pod, entry), base);
        assert!(base.len() <= MAX_BASE_LEN, "{}", base.len());
    }
}
