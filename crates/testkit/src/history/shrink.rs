//! The smallest part of a list that still fails: delta debugging (Zeller and Hildebrandt, `ddmin`).

/// The places of a list of `length` items that together still fail, none of which can be left out.
///
/// The whole list fails. `fails` is asked with ever fewer places, in order.
pub(super) fn fewest(length: usize, mut fails: impl FnMut(&[usize]) -> bool) -> Vec<usize> {
    if fails(&[]) {
        return Vec::new();
    }
    // `ddmin` finds a list of which no item can be left out, not the shortest one.
    if let Some(found) = few(length).find(|few| fails(few)) {
        return found;
    }
    let mut kept: Vec<usize> = (0..length).collect();
    let mut parts = 2;
    while !kept.is_empty() {
        let size = kept.len().div_ceil(parts).max(1);
        let smaller = (0..kept.len().div_ceil(size)).find_map(|part| {
            let range = part * size..kept.len().min((part + 1) * size);
            let rest: Vec<usize> = [&kept[..range.start], &kept[range.end..]].concat();
            fails(&rest).then_some(rest)
        });
        match smaller {
            Some(rest) => {
                kept = rest;
                parts = parts.saturating_sub(1).max(2);
            }
            None if size == 1 => break,
            None => parts = (parts * 2).min(kept.len()),
        }
    }
    kept
}

/// Every combination of one item, then every one of two.
fn few(length: usize) -> impl Iterator<Item = Vec<usize>> {
    let one = (0..length).map(|item| vec![item]);
    let two = (0..length).flat_map(move |first| (first + 1..length).map(move |second| vec![first, second]));
    one.chain(two).filter(move |few| few.len() < length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_needed_is_left_out() {
        for needed in [
            vec![],
            vec![0],
            vec![6],
            vec![2, 5],
            vec![0, 3, 6],
            (0..7).collect(),
        ] {
            let found = fewest(7, |kept| needed.iter().all(|place| kept.contains(place)));
            assert_eq!(found, needed);
        }
    }

    #[test]
    fn a_pair_is_found_although_a_longer_list_fails_too() {
        let fails = |kept: &[usize]| kept == [2, 5] || kept.len() >= 5 && kept.contains(&0);
        assert_eq!(fewest(7, fails), [2, 5]);
    }

    #[test]
    fn of_two_reasons_one_is_kept() {
        let found = fewest(8, |kept| kept.contains(&1) || kept.contains(&6));
        assert_eq!(found.len(), 1);
    }
}
