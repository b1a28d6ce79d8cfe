//! Writes an image as an [OCI image layout](https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md)
//! in a tar.
//!
//! An index with one manifest per platform, followed by one *attestation manifest* per platform with the SBOM: the
//! output of `docker buildx build --sbom=true --output type=oci,oci-artifact=true`. `docker buildx imagetools inspect`
//! finds the SBOM through the index, `oras discover` by the attestation's `subject`.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use oci_spec::image::{
    ConfigBuilder, Descriptor, Digest, HistoryBuilder, ImageConfigurationBuilder, ImageIndexBuilder,
    ImageManifestBuilder, MediaType, OciLayoutBuilder, PlatformBuilder, RootFsBuilder, SCHEMA_VERSION,
};
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tar::{EntryType, Header};

use super::{About, FOLDER, Platform, USER};

/// Artifact type of an attestation manifest.
pub(super) const ATTESTATION: &str = "application/vnd.docker.attestation.manifest.v1+json";
/// Media type of a statement about a subject, named by digest.
pub(super) const STATEMENT: &str = "application/vnd.in-toto+json";
/// Predicate type of an SBOM.
pub(super) const SPDX: &str = "https://spdx.dev/Document";
/// Annotation in the index, on an attestation manifest: digest of its image manifest.
pub(super) const REFERENCE: &str = "vnd.docker.reference.digest";

/// One platform of an image.
pub(super) struct Variant {
    pub(super) platform: Platform,
    pub(super) binary: Vec<u8>,
    pub(super) sbom: Value,
}

/// A written image.
pub(super) struct Written {
    pub(super) bytes: Vec<u8>,
    /// Digest of the index, which is the image's digest in a registry.
    pub(super) digest: Digest,
}

/// Writes the image of `variants`; the same arguments give the same bytes.
pub(super) fn write(about: &About, variants: &[Variant]) -> Result<Written> {
    let mut blobs = Blobs::default();
    let manifests = variants
        .iter()
        .map(|variant| blobs.manifest(about, variant))
        .collect::<Result<Vec<_>>>()?;
    let attestations = manifests
        .iter()
        .zip(variants)
        .map(|(manifest, variant)| blobs.attestation(manifest, &variant.sbom))
        .collect::<Result<Vec<_>>>()?;
    let index = ImageIndexBuilder::default()
        .schema_version(SCHEMA_VERSION)
        .media_type(MediaType::ImageIndex)
        .manifests([manifests, attestations].concat())
        .annotations(about.labels().into_iter().collect::<HashMap<_, _>>())
        .build()?;
    let index = blobs.add(MediaType::ImageIndex, json(&index)?)?;
    let digest = index.digest().clone();

    let mut files = BTreeMap::from([
        ("index.json".to_owned(), json(&entry_point(about, index)?)?),
        (
            "oci-layout".to_owned(),
            json(
                &OciLayoutBuilder::default()
                    .image_layout_version("1.0.0")
                    .build()?,
            )?,
        ),
    ]);
    files.extend(
        blobs
            .0
            .into_iter()
            .map(|(hash, blob)| (format!("blobs/sha256/{hash}"), blob)),
    );
    let mut tar = Archive::new(about);
    tar.folders("blobs/sha256")?;
    for (path, content) in &files {
        tar.file(path, 0o644, content)?;
    }
    Ok(Written {
        bytes: tar.finish()?,
        digest,
    })
}

/// `index.json`: the only image of the layout, with its references for the tools that read it.
fn entry_point(about: &About, mut image: Descriptor) -> Result<oci_spec::image::ImageIndex> {
    let version = &about.package.version;
    image.set_annotations(Some(HashMap::from([
        ("org.opencontainers.image.ref.name".to_owned(), version.clone()),
        // Name for containerd and `kind load image-archive`, as the kubelet normalizes the chart's default.
        (
            "io.containerd.image.name".to_owned(),
            format!("docker.io/library/{}:{version}", about.package.name),
        ),
    ])));
    Ok(ImageIndexBuilder::default()
        .schema_version(SCHEMA_VERSION)
        .media_type(MediaType::ImageIndex)
        .manifests([image])
        .build()?)
}

/// Blobs by the hexadecimal SHA-256 of their content.
#[derive(Default)]
struct Blobs(BTreeMap<String, Vec<u8>>);

impl Blobs {
    fn add(&mut self, media_type: MediaType, content: Vec<u8>) -> Result<Descriptor> {
        let hash = sha256(&content);
        let size = u64::try_from(content.len()).context("a blob of more than 2⁶⁴ bytes")?;
        let digest = Digest::try_from(format!("sha256:{hash}"))?;
        self.0.insert(hash, content);
        Ok(Descriptor::new(media_type, size, digest))
    }

    fn manifest(&mut self, about: &About, variant: &Variant) -> Result<Descriptor> {
        let layer = layer(about, &variant.binary)?;
        let unpacked = format!("sha256:{}", sha256(&layer));
        let layer = self.add(MediaType::ImageLayerGzip, compressed(&layer)?)?;
        let config = self.add(
            MediaType::ImageConfig,
            json(&config(about, variant.platform, unpacked)?)?,
        )?;
        let manifest = ImageManifestBuilder::default()
            .schema_version(SCHEMA_VERSION)
            .media_type(MediaType::ImageManifest)
            .config(config)
            .layers([layer])
            .build()?;
        let mut manifest = self.add(MediaType::ImageManifest, json(&manifest)?)?;
        let platform = PlatformBuilder::default()
            .os("linux")
            .architecture(variant.platform.arch())
            .build()?;
        manifest.set_platform(Some(platform));
        Ok(manifest)
    }

    /// The attestation manifest for `manifest`.
    fn attestation(&mut self, manifest: &Descriptor, sbom: &Value) -> Result<Descriptor> {
        let statement = json!({
            "_type": "https://in-toto.io/Statement/v0.1",
            "subject": [{"name": "_", "digest": {"sha256": manifest.digest().digest()}}],
            "predicateType": SPDX,
            "predicate": sbom,
        });
        let mut statement = self.add(STATEMENT.into(), json(&statement)?)?;
        let kind = HashMap::from([("in-toto.io/predicate-type".to_owned(), SPDX.to_owned())]);
        statement.set_annotations(Some(kind));
        let subject = Descriptor::new(
            MediaType::ImageManifest,
            manifest.size(),
            manifest.digest().clone(),
        );
        let attestation = ImageManifestBuilder::default()
            .schema_version(SCHEMA_VERSION)
            .media_type(MediaType::ImageManifest)
            .artifact_type(ATTESTATION)
            .config(self.add(MediaType::EmptyJSON, b"{}".to_vec())?)
            .layers([statement])
            .subject(subject)
            .build()?;
        let mut attestation = self.add(MediaType::ImageManifest, json(&attestation)?)?;
        // With an unknown platform, so that nobody pulls it to run it.
        let unknown = PlatformBuilder::default().os("unknown").architecture("unknown");
        attestation.set_platform(Some(unknown.build()?));
        attestation.set_annotations(Some(HashMap::from([
            (
                "vnd.docker.reference.type".to_owned(),
                "attestation-manifest".to_owned(),
            ),
            (REFERENCE.to_owned(), manifest.digest().to_string()),
        ])));
        Ok(attestation)
    }
}

/// The only layer: the binary and its parent folders.
fn layer(about: &About, binary: &[u8]) -> Result<Vec<u8>> {
    let mut tar = Archive::new(about);
    tar.folders(FOLDER)?;
    tar.file(&format!("{FOLDER}/{}", about.package.name), 0o755, binary)?;
    tar.finish()
}

fn config(about: &About, platform: Platform, layer: String) -> Result<oci_spec::image::ImageConfiguration> {
    let run = ConfigBuilder::default()
        .user(USER)
        .env([format!("PATH=/{FOLDER}")])
        .entrypoint([format!("/{FOLDER}/{}", about.package.name)])
        .labels(about.labels().into_iter().collect::<HashMap<_, _>>())
        .build()?;
    let step = HistoryBuilder::default()
        .created(about.created.to_string())
        .created_by("cargo xtask image")
        .build()?;
    Ok(ImageConfigurationBuilder::default()
        .created(about.created.to_string())
        .os("linux")
        .architecture(platform.arch())
        .config(run)
        .rootfs(RootFsBuilder::default().typ("layers").diff_ids([layer]).build()?)
        .history([step])
        .build()?)
}

/// A tar whose bytes depend only on its content.
pub(super) struct Archive {
    tar: tar::Builder<Vec<u8>>,
    modified: u64,
}

impl Archive {
    pub(super) fn new(about: &About) -> Self {
        Self {
            tar: tar::Builder::new(Vec::new()),
            modified: about.created.as_second().try_into().unwrap_or_default(),
        }
    }

    /// Adds the folder `path` and its parents.
    fn folders(&mut self, path: &str) -> Result<()> {
        let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
        for folder in ends.filter_map(|end| path.get(..end)) {
            self.entry(&format!("{folder}/"), EntryType::Directory, 0o755, &[])?;
        }
        Ok(())
    }

    pub(super) fn file(&mut self, path: &str, mode: u32, content: &[u8]) -> Result<()> {
        self.entry(path, EntryType::Regular, mode, content)
    }

    fn entry(&mut self, path: &str, kind: EntryType, mode: u32, content: &[u8]) -> Result<()> {
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(self.modified);
        header.set_size(u64::try_from(content.len()).context("a file of more than 2⁶⁴ bytes")?);
        self.tar
            .append_data(&mut header, path, content)
            .with_context(|| format!("pack {path}"))
    }

    pub(super) fn finish(self) -> Result<Vec<u8>> {
        self.tar.into_inner().context("end a tar")
    }
}

pub(super) fn compressed(content: &[u8]) -> Result<Vec<u8>> {
    // No name and no time in the header.
    let mut gzip = GzBuilder::new().write(Vec::new(), Compression::best());
    gzip.write_all(content)
        .and_then(|()| gzip.finish())
        .context("compress an archive")
}

/// JSON with sorted keys, as labels and annotations have no order.
fn json(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut value = serde_json::to_value(value)?;
    value.sort_all_objects();
    Ok(serde_json::to_vec(&value)?)
}

/// Hexadecimal SHA-256.
pub(super) fn sha256(content: &[u8]) -> String {
    hex::encode(Sha256::digest(content))
}

#[cfg(test)]
pub(super) mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::package::Package;

    pub(in crate::image) fn about() -> About {
        About {
            package: Package {
                name: "ttl-controller".to_owned(),
                version: "1.2.3".to_owned(),
                description: "Annotates nodes".to_owned(),
                license: "Apache-2.0".to_owned(),
            },
            revision: "0123abc".to_owned(),
            created: Timestamp::from_second(1_700_000_000).unwrap(),
            source: Some("https://example.com/controllers".to_owned()),
        }
    }

    /// An image with a small text instead of each binary.
    pub(in crate::image) fn image(platforms: &[Platform]) -> Written {
        let about = about();
        let variants = platforms.iter().map(|platform| Variant {
            platform: *platform,
            binary: format!("the binary for {}", platform.arch()).into_bytes(),
            sbom: json!({"spdxVersion": "SPDX-2.3"}),
        });
        write(&about, &variants.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn an_image_has_the_same_bytes_each_time() {
        let platforms = [Platform::Amd64, Platform::Arm64];
        let first = image(&platforms);
        for _ in 0..20 {
            assert_eq!(image(&platforms).bytes, first.bytes);
        }
        assert_ne!(image(&[Platform::Amd64]).digest, first.digest);
    }

    #[test]
    fn the_entries_of_the_layout_are_sorted_and_of_the_commits_time() {
        let written = image(&[Platform::Amd64]);
        let mut archive = tar::Archive::new(written.bytes.as_slice());
        let mut paths = Vec::new();
        for entry in archive.entries().unwrap() {
            let entry = entry.unwrap();
            assert_eq!(entry.header().mtime().unwrap(), 1_700_000_000);
            paths.push(entry.path().unwrap().display().to_string());
        }
        assert!(paths.is_sorted(), "{paths:?}");
        assert_eq!(paths[..2], ["blobs/", "blobs/sha256/"]);
        assert_eq!(paths[paths.len() - 2..], ["index.json", "oci-layout"]);
    }
}
