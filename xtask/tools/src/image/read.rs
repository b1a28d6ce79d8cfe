//! Reads an image back from its layout. Checks everything that the layout claims.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use flate2::read::GzDecoder;
use oci_spec::image::{
    Arch, Descriptor, ImageConfiguration, ImageIndex, ImageManifest, MediaType, OciLayout, Os,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::layout::{ATTESTATION, REFERENCE, SPDX, STATEMENT, sha256};

/// An image of one or more platforms.
#[derive(Debug)]
pub(super) struct Image {
    /// Reference for tools that read the layout.
    pub(super) reference: String,
    /// Digest of the image in a registry.
    pub(super) digest: String,
    pub(super) variants: Vec<Variant>,
}

/// The image for one platform.
#[derive(Debug)]
pub(super) struct Variant {
    pub(super) arch: Arch,
    pub(super) config: ImageConfiguration,
    /// The only layer, a tar.
    pub(super) layer: Vec<u8>,
    pub(super) sbom: Value,
}

impl Image {
    /// Opens the image in the file `path`. Every file of the layout must match its digest and must be needed.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let tar = fs::read(path).with_context(|| format!("read {}", path.display()))?;
        Self::read(&tar).with_context(|| format!("{} is no image as it should be", path.display()))
    }

    pub(super) fn read(tar: &[u8]) -> Result<Self> {
        let layout = Layout::unpack(tar)?;
        let marker: OciLayout = serde_json::from_slice(layout.file("oci-layout")?)?;
        ensure!(
            marker.image_layout_version() == "1.0.0",
            "an unknown layout: {marker:?}"
        );
        let entry_point: ImageIndex = serde_json::from_slice(layout.file("index.json")?)?;
        let [image] = entry_point.manifests().as_slice() else {
            bail!("{} images instead of one", entry_point.manifests().len());
        };
        let reference = annotation(image, "org.opencontainers.image.ref.name")?.to_owned();
        let index: ImageIndex = layout.json(image, &MediaType::ImageIndex)?;
        let (attestations, manifests): (Vec<_>, Vec<_>) = index
            .manifests()
            .iter()
            .partition(|manifest| annotation(manifest, REFERENCE).is_ok());
        ensure!(
            attestations.len() == manifests.len(),
            "each platform has one SBOM"
        );
        let variants = manifests
            .into_iter()
            .map(|manifest| {
                let digest = manifest.digest().to_string();
                let attestation = attestations
                    .iter()
                    .find(|attestation| annotation(attestation, REFERENCE).is_ok_and(|of| of == digest))
                    .with_context(|| format!("{digest} has no SBOM"))?;
                let sbom = layout.sbom(manifest, attestation)?;
                layout.variant(manifest, sbom)
            })
            .collect::<Result<Vec<_>>>()?;
        layout.all_read()?;
        let digest = image.digest().to_string();
        Ok(Self {
            reference,
            digest,
            variants,
        })
    }
}

/// The files of a layout.
struct Layout {
    files: BTreeMap<String, Vec<u8>>,
    /// Files that were read.
    read: RefCell<BTreeSet<String>>,
}

impl Layout {
    fn unpack(tar: &[u8]) -> Result<Self> {
        let mut files = BTreeMap::new();
        for entry in tar::Archive::new(tar).entries()? {
            let mut entry = entry?;
            if entry.header().entry_type().is_file() {
                let path = entry.path()?.display().to_string();
                let mut content = Vec::new();
                entry.read_to_end(&mut content)?;
                files.insert(path, content);
            }
        }
        Ok(Self {
            files,
            read: RefCell::default(),
        })
    }

    fn file(&self, path: &str) -> Result<&[u8]> {
        self.read.borrow_mut().insert(path.to_owned());
        let content = self
            .files
            .get(path)
            .with_context(|| format!("{path} is missing"))?;
        Ok(content)
    }

    /// Content of `descriptor`.
    fn blob(&self, descriptor: &Descriptor, media_type: &MediaType) -> Result<&[u8]> {
        let (digest, found) = (descriptor.digest(), descriptor.media_type());
        ensure!(found == media_type, "{digest} is {found}, not {media_type}");
        let path = format!("blobs/{}/{}", digest.algorithm(), digest.digest());
        let content = self.file(&path)?;
        let size = descriptor.size();
        ensure!(
            u64::try_from(content.len())? == size,
            "{path} has {} bytes, not {size}",
            content.len()
        );
        ensure!(
            digest.to_string() == format!("sha256:{}", sha256(content)),
            "{path} is not what its name says"
        );
        Ok(content)
    }

    fn json<T: DeserializeOwned>(&self, descriptor: &Descriptor, media_type: &MediaType) -> Result<T> {
        serde_json::from_slice(self.blob(descriptor, media_type)?)
            .with_context(|| format!("read {} as {media_type}", descriptor.digest()))
    }

    fn variant(&self, descriptor: &Descriptor, sbom: Value) -> Result<Variant> {
        let manifest: ImageManifest = self.json(descriptor, &MediaType::ImageManifest)?;
        let config: ImageConfiguration = self.json(manifest.config(), &MediaType::ImageConfig)?;
        let platform = descriptor
            .platform()
            .as_ref()
            .context("a manifest of no platform")?;
        ensure!(
            (platform.os(), config.os()) == (&Os::Linux, &Os::Linux)
                && platform.architecture() == config.architecture(),
            "the index and the configuration tell different platforms"
        );
        let [layer] = manifest.layers().as_slice() else {
            bail!("{} layers instead of one", manifest.layers().len());
        };
        let mut unpacked = Vec::new();
        GzDecoder::new(self.blob(layer, &MediaType::ImageLayerGzip)?)
            .read_to_end(&mut unpacked)
            .context("uncompress a layer")?;
        ensure!(
            config.rootfs().diff_ids() == &[format!("sha256:{}", sha256(&unpacked))],
            "the configuration is of another layer"
        );
        Ok(Variant {
            arch: platform.architecture().clone(),
            config,
            layer: unpacked,
            sbom,
        })
    }

    /// The SBOM that `attestation` attaches to `manifest`.
    fn sbom(&self, manifest: &Descriptor, attestation: &Descriptor) -> Result<Value> {
        let attached: ImageManifest = self.json(attestation, &MediaType::ImageManifest)?;
        let kind = attached.artifact_type().as_ref();
        ensure!(
            kind == Some(&ATTESTATION.into()),
            "an attestation is of type {kind:?}"
        );
        let subject = attached.subject().as_ref().context("an attestation of nothing")?;
        ensure!(
            (subject.digest(), subject.size()) == (manifest.digest(), manifest.size()),
            "an attestation is of another manifest than the index says"
        );
        self.blob(attached.config(), &MediaType::EmptyJSON)?;
        let [statement] = attached.layers().as_slice() else {
            bail!("{} statements instead of one", attached.layers().len());
        };
        let mut statement: Value = self.json(statement, &STATEMENT.into())?;
        ensure!(
            statement["predicateType"] == SPDX
                && statement["subject"][0]["digest"]["sha256"] == manifest.digest().digest(),
            "a statement is of another kind or manifest"
        );
        Ok(statement["predicate"].take())
    }

    /// Fails if the layout has a file that belongs to no image.
    fn all_read(&self) -> Result<()> {
        let read = self.read.borrow();
        let rest: Vec<_> = self.files.keys().filter(|path| !read.contains(*path)).collect();
        ensure!(rest.is_empty(), "not part of the image: {rest:?}");
        Ok(())
    }
}

fn annotation<'a>(descriptor: &'a Descriptor, name: &str) -> Result<&'a str> {
    let annotations = descriptor.annotations().as_ref();
    let value = annotations.and_then(|annotations| annotations.get(name));
    Ok(value.with_context(|| format!("{} has no {name}", descriptor.digest()))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Platform;
    use crate::image::layout::tests::image;

    #[test]
    fn what_was_written_is_read_back() {
        let read = Image::read(&image(&[Platform::Amd64, Platform::Arm64]).bytes).unwrap();
        assert_eq!(read.reference, "1.2.3");
        let arches: Vec<_> = read.variants.iter().map(|variant| variant.arch.clone()).collect();
        assert_eq!(arches, [Arch::Amd64, Arch::ARM64]);
        let variant = &read.variants[1];
        assert_eq!(variant.sbom["spdxVersion"], "SPDX-2.3");
        assert_eq!(variant.config.created().as_deref(), Some("2023-11-14T22:13:20Z"));
        let run = variant.config.config().as_ref().unwrap();
        assert_eq!(run.user().as_deref(), Some("65532:65532"));
        assert_eq!(
            run.entrypoint().as_deref().unwrap(),
            ["/usr/local/bin/ttl-controller"]
        );
        assert_eq!(run.env().as_deref().unwrap(), ["PATH=/usr/local/bin"]);
        let labels = run.labels().as_ref().unwrap();
        let labels: BTreeMap<_, _> = labels.iter().map(|(name, value)| (&**name, &**value)).collect();
        let expected = [
            ("org.opencontainers.image.created", "2023-11-14T22:13:20Z"),
            ("org.opencontainers.image.description", "Annotates nodes"),
            ("org.opencontainers.image.licenses", "Apache-2.0"),
            ("org.opencontainers.image.revision", "0123abc"),
            (
                "org.opencontainers.image.source",
                "https://example.com/controllers",
            ),
            ("org.opencontainers.image.title", "ttl-controller"),
            ("org.opencontainers.image.version", "1.2.3"),
        ];
        assert_eq!(labels, BTreeMap::from(expected));
        let mut layer = tar::Archive::new(variant.layer.as_slice());
        let files = layer.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            let (header, path) = (entry.header(), entry.path().unwrap());
            let [mode, uid] = [header.mode().unwrap().into(), header.uid().unwrap()];
            format!("{} {mode:o} {uid} {}", path.display(), header.size().unwrap())
        });
        assert_eq!(
            files.collect::<Vec<_>>(),
            [
                "usr/ 755 0 0",
                "usr/local/ 755 0 0",
                "usr/local/bin/ 755 0 0",
                "usr/local/bin/ttl-controller 755 0 20",
            ]
        );
    }

    /// A layout with these files.
    fn packed(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for (path, content) in files {
            let mut header = tar::Header::new_ustar();
            header.set_size(content.len() as u64);
            tar.append_data(&mut header, path, content.as_slice()).unwrap();
        }
        tar.into_inner().unwrap()
    }

    fn files() -> BTreeMap<String, Vec<u8>> {
        Layout::unpack(&image(&[Platform::Amd64]).bytes).unwrap().files
    }

    /// The error if the content of this file is changed.
    fn refusal(changed: &str, change: impl Fn(&mut Vec<u8>)) -> String {
        let mut files = files();
        change(files.get_mut(changed).unwrap());
        Image::read(&packed(files)).unwrap_err().to_string()
    }

    #[test]
    fn a_file_that_was_changed_is_not_believed() {
        assert!(Image::read(&packed(files())).is_ok());
        for blob in files().into_keys().filter(|path| path.starts_with("blobs/")) {
            let flipped = refusal(&blob, |content| *content.last_mut().unwrap() ^= 1);
            assert_eq!(flipped, format!("{blob} is not what its name says"));
            let longer = refusal(&blob, |content| content.push(b' '));
            assert!(longer.starts_with(&format!("{blob} has ")), "{longer}");
        }
    }

    #[test]
    fn a_file_that_belongs_to_no_image_is_found() {
        let more = [("notes".to_owned(), b"left behind".to_vec())];
        let error = Image::read(&packed(files().into_iter().chain(more))).unwrap_err();
        assert_eq!(error.to_string(), "not part of the image: [\"notes\"]");
    }
}
