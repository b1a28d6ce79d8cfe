//! Lists the crates of a binary in a section of the binary, for scanners without the SBOM: the format of
//! [`cargo auditable`](https://github.com/rust-secure-code/cargo-auditable).
//!
//! Does not use that program: it relies on `cargo metadata`, which reports the features of the whole workspace, and its
//! own path would change the bytes of the binary.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde_json::{Value, json};

use super::sbom::Part;
use xtask::command;

const SECTION: &str = ".dep-v0";

/// The document of a controller with these `parts`; each has the ids of its dependencies.
pub(super) fn of(controller: &str, parts: &BTreeMap<Part, Vec<String>>) -> Value {
    let places: BTreeMap<_, _> = parts.keys().map(Part::id).zip(0_usize..).collect();
    let packages = parts.iter().map(|(part, needs)| {
        let mut needs: Vec<_> = needs.iter().filter_map(|id| places.get(id)).collect();
        needs.sort_unstable();
        json!({
            "name": part.name,
            "version": part.version,
            "source": if part.ours { "local" } else { "crates.io" },
            "dependencies": needs,
            "root": part.name == controller,
        })
    });
    json!({"packages": packages.collect::<Vec<_>>()})
}

/// Writes `document` into the binary `path` with its platform's `objcopy`; the same arguments give the same bytes.
pub(super) fn add(document: &Value, path: &Path, objcopy: &str) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir().context("create a directory for a section")?;
    let (section, with) = (folder.path().join("section"), folder.path().join("binary"));
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&serde_json::to_vec(document)?)?;
    fs::write(&section, packed.finish()?).context("write a section")?;
    let mut add = Command::new(objcopy);
    add.arg(format!("--add-section={SECTION}={}", section.display()));
    command::run(add.arg(path).arg(&with))?;
    fs::read(&with).with_context(|| format!("read {}", with.display()))
}

/// The document in a binary.
pub(super) fn read(binary: &[u8]) -> Result<Value> {
    let packed = section(binary, SECTION).with_context(|| format!("no section {SECTION}"))?;
    let mut text = String::new();
    let mut unpacked = ZlibDecoder::new(packed);
    unpacked
        .read_to_string(&mut text)
        .with_context(|| format!("unpack {SECTION}"))?;
    Ok(serde_json::from_str(&text)?)
}

/// Content of a section of an ELF file: 64 bits, little endian, as on both platforms.
fn section<'a>(elf: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let part = |from: u64, length: u64| {
        let (from, to) = (from, from.checked_add(length)?);
        elf.get(usize::try_from(from).ok()?..usize::try_from(to).ok()?)
    };
    let number = |from: u64, length: u64| {
        let bytes = part(from, length)?.iter().rev();
        Some(bytes.fold(0, |number, byte| number << 8 | u64::from(*byte)))
    };
    // e_shoff, e_shentsize, e_shnum and e_shstrndx; then sh_name, sh_offset and sh_size.
    let (headers, size) = (number(0x28, 8)?, number(0x3a, 2)?);
    let header = |index: u64| headers.checked_add(size * index);
    let content = |header: u64| part(number(header + 0x18, 8)?, number(header + 0x20, 8)?);
    let names = content(header(number(0x3e, 2)?)?)?;
    (0..number(0x3c, 2)?).filter_map(header).find_map(|header| {
        let found = names.get(usize::try_from(number(header, 4)?).ok()?..)?;
        let is_it = found.strip_prefix(name.as_bytes())?.first() == Some(&0);
        is_it.then(|| content(header)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::sbom;

    #[test]
    fn a_document_has_the_places_of_what_each_crate_depends_on() {
        let tree = "0|ours v0.1.0 (/src/ours)|Apache-2.0|\n\
                    1|kube v5.0.0|Apache-2.0|\n\
                    2|http v1.5.0|MIT|\n\
                    1|http v1.5.0|MIT| (*)\n";
        let document = of("ours", &sbom::parse(tree).unwrap());
        let package = |name: &str, version: &str, source: &str, needs: &[usize], root: bool| json!({"name": name, "version": version, "source": source, "dependencies": needs, "root": root});
        let packages = [
            package("http", "1.5.0", "crates.io", &[], false),
            package("kube", "5.0.0", "crates.io", &[0], false),
            package("ours", "0.1.0", "local", &[0, 1], true),
        ];
        assert_eq!(document, json!({"packages": packages}));
    }

    #[test]
    fn what_was_added_to_a_program_is_read_back_and_the_program_runs() {
        let document = json!({"packages": []});
        let program = Path::new("/bin/true");
        let with = add(&document, program, "objcopy").unwrap();
        assert_eq!(read(&with).unwrap(), document);
        assert_eq!(with, add(&document, program, "objcopy").unwrap());
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("true");
        fs::copy(program, &copy).unwrap();
        fs::write(&copy, &with).unwrap();
        assert!(Command::new(&copy).status().unwrap().success());
    }

    #[test]
    fn a_file_without_the_section_has_none() {
        for file in [
            fs::read("/bin/true").unwrap(),
            b"#!/bin/sh\n".to_vec(),
            vec![0xff; 256],
        ] {
            assert_eq!(read(&file).unwrap_err().to_string(), "no section .dep-v0");
        }
    }
}
