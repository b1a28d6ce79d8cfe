//! Labels as one text, because an object's author may add as many as fit into it.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// The labels of an object, ordered by key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Labels(Texts);

/// Strings, stored one after the other. Decoded from a list, or from a map as alternating keys and values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Texts {
    text: Box<str>,
    /// The end of each string in `text`.
    ends: Box<[u32]>,
}

impl Labels {
    /// If a key has several values, the last counts.
    pub fn new(labels: impl IntoIterator<Item = (impl AsRef<str>, impl AsRef<str>)>) -> Self {
        let mut texts = Growing::default();
        for (key, value) in labels {
            texts.push(key.as_ref());
            texts.push(value.as_ref());
        }
        Self::ordered(texts.into_texts())
    }

    /// Takes alternating keys and values, and sorts them if necessary. Every API server sends them sorted.
    fn ordered(texts: Texts) -> Self {
        let labels = Self(texts);
        let keys = labels.iter().map(|(key, _)| key);
        if keys.is_sorted_by(|a, b| a < b) {
            return labels;
        }
        Self::new(labels.iter().collect::<BTreeMap<_, _>>())
    }

    /// The value of the label `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        let at = self.0.find(0, 2, key)?;
        self.0.get(at + 1)
    }

    /// All labels, ordered by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let keys = (0..self.0.len()).step_by(2);
        keys.filter_map(|at| Some((self.0.get(at)?, self.0.get(at + 1)?)))
    }
}

impl Texts {
    /// The strings in this order.
    pub fn new<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut all = Growing::default();
        texts.into_iter().for_each(|text| all.push(text));
        all.into_texts()
    }

    /// The number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there is no string.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The string with this index.
    pub fn get(&self, at: usize) -> Option<&str> {
        let place = |end: &u32| usize::try_from(*end).unwrap_or(usize::MAX);
        let before = at.checked_sub(1).and_then(|before| self.ends.get(before));
        self.text.get(before.map_or(0, place)..place(self.ends.get(at)?))
    }

    /// All strings, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).filter_map(|at| self.get(at))
    }

    /// The index of `text` among every `step`th string from `first` on, which must be sorted.
    pub fn find(&self, first: usize, step: usize, text: &str) -> Option<usize> {
        let (mut low, mut high) = (0, self.len().saturating_sub(first).div_ceil(step));
        while low < high {
            let middle = usize::midpoint(low, high);
            let at = first + middle * step;
            match self.get(at)?.cmp(text) {
                Ordering::Equal => return Some(at),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        None
    }
}

/// [`Texts`] under construction.
#[derive(Default)]
struct Growing {
    text: String,
    ends: Vec<u32>,
}

impl Growing {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        // The API server accepts no object of 4 GiB.
        self.ends.push(u32::try_from(self.text.len()).unwrap_or(u32::MAX));
    }

    fn into_texts(self) -> Texts {
        Texts {
            text: self.text.into(),
            ends: self.ends.into(),
        }
    }
}

impl<'de> DeserializeSeed<'de> for &mut Growing {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for &mut Growing {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.push(text);
        Ok(())
    }
}

struct All;

impl<'de> Visitor<'de> for All {
    type Value = Texts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("strings")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Texts, A::Error> {
        let mut all = Growing::default();
        while list.next_element_seed(&mut all)?.is_some() {}
        Ok(all.into_texts())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Texts, A::Error> {
        let mut all = Growing::default();
        while map.next_key_seed(&mut all)?.is_some() {
            map.next_value_seed(&mut all)?;
        }
        Ok(all.into_texts())
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(All)
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(All).map(Self::ordered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_in_order_however_they_come_and_the_last_of_a_key_counts() {
        let read: Labels = serde_json::from_str(r#"{"b":"2","a":"","b":"3","":"x"}"#).unwrap();
        assert_eq!(
            read.iter().collect::<Vec<_>>(),
            [("", "x"), ("a", ""), ("b", "3")]
        );
        assert_eq!(read, Labels::new([("b", "3"), ("", "x"), ("a", "")]));
        let values = ["", "a", "b", "c", "\u{e9}"].map(|key| read.get(key));
        assert_eq!(values, [Some("x"), Some(""), Some("3"), None, None]);
        assert_eq!(Labels::default().get(""), None);
    }

    #[test]
    fn each_of_many_labels_is_found_and_no_other() {
        let labels = Labels::new((0..1_000).map(|key| (format!("k{}", key * 2), key.to_string())));
        for key in 0..2_000 {
            let value = (key % 2 == 0).then(|| (key / 2).to_string());
            assert_eq!(labels.get(&format!("k{key}")), value.as_deref());
        }
    }
}
