//! What is judged of an image as it is read.

use std::io::Read;

use anyhow::{Context, Result, bail, ensure};
use oci_spec::image::Arch;

use crate::image::read::{Image, Variant};
use crate::image::{FOLDER, USER};

/// What an image may take on a node.
const LIMIT: u64 = 15 << 20;

/// What can be told of an image without running it, as it should be.
pub(super) struct Fixed {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) revision: String,
    arch: Arch,
    pub(super) entrypoint: Vec<String>,
    env: Vec<String>,
    /// In bytes, of the binary.
    size: u64,
    /// How many packages its SBOM lists.
    parts: usize,
}

impl std::fmt::Display for Fixed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kib = self.size >> 10;
        write!(
            f,
            "{} {} linux/{}: {}.{} MiB, {} packages in its SBOM",
            self.name,
            self.version,
            self.arch,
            kib >> 10,
            (kib & 1023) * 10 / 1024,
            self.parts
        )
    }
}

impl Fixed {
    pub(super) fn check(image: &Image, variant: &Variant) -> Result<Self> {
        let config = variant
            .config
            .config()
            .as_ref()
            .context("no configuration to run with")?;
        let label = |name: &str| -> Result<String> {
            let labels = config.labels().as_ref();
            let value = labels.and_then(|labels| labels.get(&format!("org.opencontainers.image.{name}")));
            Ok(value.with_context(|| format!("no label {name}"))?.clone())
        };
        let (name, version) = (label("title")?, label("version")?);
        for label_name in ["description", "licenses", "created"] {
            label(label_name)?;
        }
        ensure!(
            image.reference == version,
            "the layout calls it {}, its label {version}",
            image.reference
        );
        ensure!(
            config.user().as_deref() == Some(USER),
            "it runs as {:?}",
            config.user()
        );
        let entrypoint = config.entrypoint().clone().unwrap_or_default();
        ensure!(
            entrypoint == [format!("/{FOLDER}/{name}")],
            "it runs {entrypoint:?}"
        );
        let size = only_the_binary(variant, &format!("{FOLDER}/{name}"))?;
        ensure!(size < LIMIT, "{name} takes {size} bytes; it may take {LIMIT}");
        let parts = variant.sbom["packages"]
            .as_array()
            .context("an SBOM without packages")?;
        ensure!(
            parts
                .iter()
                .any(|part| part["name"] == *name && part["versionInfo"] == *version),
            "the SBOM is of something else"
        );
        Ok(Self {
            name,
            version,
            revision: label("revision")?,
            arch: variant.arch.clone(),
            entrypoint,
            env: config.env().clone().unwrap_or_default(),
            size,
            parts: parts.len(),
        })
    }

    /// The environment of its entry point.
    pub(super) fn environment(&self) -> Vec<(&str, &str)> {
        self.env
            .iter()
            .filter_map(|variable| variable.split_once('='))
            .collect()
    }
}

/// The size of the binary, once there is no other file and it is one for its platform.
fn only_the_binary(variant: &Variant, path: &str) -> Result<u64> {
    let mut files = Vec::new();
    for entry in tar::Archive::new(variant.layer.as_slice()).entries()? {
        let mut entry = entry?;
        if entry.header().entry_type().is_dir() {
            continue;
        }
        let mut start = [0; 20];
        entry.read_exact(&mut start).context("read the head of a file")?;
        files.push((entry.path()?.display().to_string(), entry.size(), start));
    }
    let [(found, size, start)] = files.as_slice() else {
        bail!("it holds {} files instead of its binary alone", files.len());
    };
    ensure!(found == path, "it holds {found}, not {path}");
    // The ELF header: its magic number, and e_machine.
    let machine = match variant.arch {
        Arch::Amd64 => 0x3e,
        Arch::ARM64 => 0xb7,
        _ => bail!("nothing is shipped for {}", variant.arch),
    };
    ensure!(
        start.starts_with(b"\x7fELF") && start.ends_with(&[machine, 0]),
        "{found} is no program for {}",
        variant.arch
    );
    Ok(*size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Platform;
    use crate::image::layout::tests::image;

    #[test]
    fn a_text_is_no_program_for_a_platform() {
        let image = Image::read(&image(&[Platform::Amd64]).bytes).unwrap();
        let error = Fixed::check(&image, &image.variants[0])
            .err()
            .unwrap()
            .to_string();
        assert_eq!(error, "usr/local/bin/ttl-controller is no program for amd64");
    }
}
