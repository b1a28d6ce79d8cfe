//! Lines of a transcript.

use std::collections::BTreeMap;

use super::tokens::whole;
use super::value::Expr;

/// What of the indented lines below a line is a header.
const HEADERS: [&str; 4] = ["Accept", "Content-Type", "Retry-After", "User-Agent"];

/// A line and those that continue it.
pub(super) struct Line {
    pub(super) number: usize,
    pub(super) text: String,
    pub(super) headers: BTreeMap<String, Expr>,
    pub(super) table: Vec<Vec<Expr>>,
}

pub(super) fn lines(text: &str) -> Result<Vec<Line>, String> {
    let mut found: Vec<Line> = Vec::new();
    for (index, raw) in text.lines().enumerate() {
        let number = index + 1;
        let at = |why: String| format!("{number}: {why}");
        let line = raw.trim();
        if line.is_empty() || (line.starts_with('#') && !line.starts_with("##")) {
            continue;
        }
        if !raw.starts_with(' ') {
            found.push(Line {
                number,
                text: line.to_owned(),
                headers: BTreeMap::new(),
                table: Vec::new(),
            });
            continue;
        }
        let last = found
            .last_mut()
            .ok_or_else(|| at("this continues no line".to_owned()))?;
        let header = line.split_once(':').filter(|(name, _)| HEADERS.contains(name));
        if let Some((name, value)) = header {
            last.headers.insert(name.to_owned(), whole(value).map_err(at)?);
        } else if let Some(row) = line.strip_prefix('|') {
            let cells = row.trim_end_matches('|').split('|').map(whole);
            last.table.push(cells.collect::<Result<_, _>>().map_err(at)?);
        } else {
            last.text = format!("{} {line}", last.text);
        }
    }
    Ok(found)
}
