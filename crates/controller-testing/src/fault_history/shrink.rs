//! Finds a part of a list that still fails. The whole list fails; `fails` is called with ever fewer places, in order.

use std::collections::HashSet;

/// The shortest failing selection of `length` places, if none, one or two suffice; otherwise as [`minimal`]. Tries each
/// pair, so the list must be short.
pub(super) fn shortest(length: usize, fails: impl FnMut(&[usize]) -> bool) -> Vec<usize> {
    let mut fails = asking_once(fails);
    let none_or_one = [Vec::new()].into_iter().chain((0..length).map(|item| vec![item]));
    if let Some(found) = none_or_one
        .filter(|few| few.len() < length)
        .find(|few| fails(few))
    {
        return found;
    }
    let found = without_any(length, &mut fails);
    if found.len() <= 2 {
        return found;
    }
    let pairs = (0..length).flat_map(|first| (first + 1..length).map(move |second| vec![first, second]));
    pairs.into_iter().find(|pair| fails(pair)).unwrap_or(found)
}

/// A failing selection of places, none of which can be left out; there may be smaller ones.
pub(super) fn minimal(length: usize, fails: impl FnMut(&[usize]) -> bool) -> Vec<usize> {
    without_any(length, &mut asking_once(fails))
}

/// Delta debugging (Zeller and Hildebrandt, `ddmin`): leaves out halves, quarters and so on.
fn without_any(length: usize, fails: &mut impl FnMut(&[usize]) -> bool) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..length).collect();
    let mut parts = 2;
    loop {
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
            None if size == 1 => return kept,
            None => parts = (parts * 2).min(kept.len()),
        }
    }
}

/// Remembers what passed: each call costs a run.
fn asking_once(mut fails: impl FnMut(&[usize]) -> bool) -> impl FnMut(&[usize]) -> bool {
    let mut passed = HashSet::new();
    move |kept| {
        let fails = !passed.contains(kept) && fails(kept);
        if !fails {
            passed.insert(kept.to_vec());
        }
        fails
    }
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
            let found = shortest(7, |kept| needed.iter().all(|place| kept.contains(place)));
            assert_eq!(found, needed);
            assert_eq!(
                minimal(7, |kept| needed.iter().all(|place| kept.contains(place))),
                needed
            );
        }
    }

    #[test]
    fn a_pair_is_found_although_a_longer_list_fails_too() {
        let fails = |kept: &[usize]| kept == [2, 5] || kept.len() >= 5 && kept.contains(&0);
        assert_eq!(shortest(7, fails), [2, 5]);
    }

    #[test]
    fn of_two_reasons_one_is_kept() {
        let found = minimal(8, |kept| kept.contains(&1) || kept.contains(&6));
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn nothing_is_asked_twice_and_long_lists_cost_little() {
        let mut asked = Vec::new();
        let found = minimal(32, |kept| {
            asked.push(kept.to_vec());
            [3, 17, 30].iter().all(|place| kept.contains(place))
        });
        assert_eq!(found, [3, 17, 30]);
        assert!(asked.len() < 60, "{} runs", asked.len());
        let count = asked.len();
        asked.sort();
        asked.dedup();
        assert_eq!(asked.len(), count);
    }
}
