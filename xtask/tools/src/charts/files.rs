//! The sources of the charts, and the existing files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use xtask::command::root;

/// All files below `folder`, by relative path, with the target as the text of a link; none if the folder is missing.
pub(super) fn found(folder: &Path) -> Result<BTreeMap<PathBuf, String>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    folders.retain(|folder| folder.is_dir());
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).with_context(|| format!("list {}", next.display()))? {
            let path = entry?.path();
            let reading = || format!("read {}", path.display());
            let text = if path.is_symlink() {
                fs::read_link(&path).with_context(reading)?.display().to_string()
            } else if path.is_dir() {
                folders.push(path);
                continue;
            } else {
                fs::read_to_string(&path).with_context(reading)?
            };
            files.insert(path.strip_prefix(folder).unwrap_or(&path).to_owned(), text);
        }
    }
    Ok(files)
}

fn sources() -> PathBuf {
    root().join("charts/src")
}

/// Content of `file` in the sources of `chart`; an empty `chart` means the shared sources.
pub(super) fn source(chart: &str, file: &str) -> Result<String> {
    let path = sources().join(chart).join(file);
    fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
}

/// As [`source`], for a file that not every chart has.
pub(super) fn source_if_any(chart: &str, file: &str) -> Result<Option<String>> {
    let there = sources().join(chart).join(file).is_file();
    there.then(|| source(chart, file)).transpose()
}
