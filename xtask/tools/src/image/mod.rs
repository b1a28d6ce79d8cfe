//! `cargo xtask image`: builds each controller as an OCI image, without a container daemon.
//!
//! The same commit, toolchain and C library give the same bytes, in any folder.
//!
//! | file | holds |
//! |---|---|
//! | `binary` | the static binary, for either platform |
//! | `auditable` | the crates that are linked into it, as a section of it |
//! | `plugin` | the same binary as a plugin of kubectl, for krew |
//! | `sbom` | what it is made of, as SPDX |
//! | `layout` | the image, written as an OCI image layout in a tar |
//! | `read` | the same, read back |
//! | `verify` | `cargo xtask verify-image`: read back, unpacked, and run from an empty root |

mod auditable;
mod binary;
mod layout;
mod plugin;
mod read;
mod sbom;
pub(crate) mod verify;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::ValueEnum;
use jiff::Timestamp;

use crate::package::{self, Package};
use xtask::command::{self, root, target_dir};

use binary::Binary;
use layout::Variant;

/// User of the process, which no node and no other image knows.
const USER: &str = "65532:65532";
/// Folder of the binary: in `PATH`, so that `kubectl exec` needs no path.
pub(crate) const FOLDER: &str = "usr/local/bin";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which controllers; all of them where none is named
    #[arg(value_name = "CONTROLLER")]
    controllers: Vec<String>,
    /// For which platforms, in one image; this machine's where none is named
    #[arg(long, value_enum, value_delimiter = ',')]
    platform: Vec<Platform>,
    /// The directory in which to write `<controller>.tar`, and SBOMs next to it [default: image/ in the target directory]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Where the sources are found, for the label `org.opencontainers.image.source`
    #[arg(long, value_name = "URL", env = "IMAGE_SOURCE")]
    source: Option<String>,
}

/// A platform with released images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Platform {
    #[value(name = "linux/amd64")]
    Amd64,
    #[value(name = "linux/arm64")]
    Arm64,
}

impl Platform {
    /// The platform of this machine.
    fn host() -> Self {
        if cfg!(target_arch = "aarch64") {
            Self::Arm64
        } else {
            Self::Amd64
        }
    }

    /// Name in images.
    fn arch(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Target triple in Rust.
    fn triple(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-gnu",
            Self::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }
}

/// The platforms that this machine can build for, as values of `--platform`.
pub(crate) fn buildable() -> String {
    let can_be_built = |platform: &&Platform| binary::compiler(**platform).is_ok();
    let platforms = Platform::value_variants().iter().filter(can_be_built);
    let names = platforms.map(|platform| format!("linux/{}", platform.arch()));
    names.collect::<Vec<_>>().join(",")
}

/// Metadata of an image.
#[derive(Clone, Debug)]
struct About {
    package: Package,
    /// The commit, with the suffix `-dirty` if there are uncommitted changes.
    revision: String,
    created: Timestamp,
    source: Option<String>,
}

impl About {
    /// The labels, by their OCI names.
    fn labels(&self) -> Vec<(String, String)> {
        let labels = [
            ("title", Some(&self.package.name)),
            ("description", Some(&self.package.description)),
            ("version", Some(&self.package.version)),
            ("revision", Some(&self.revision)),
            ("source", self.source.as_ref()),
            ("licenses", Some(&self.package.license)),
            ("created", Some(&self.created.to_string())),
        ];
        let labels = labels.into_iter().filter_map(|(name, value)| {
            Some((format!("org.opencontainers.image.{name}"), value?.to_owned()))
        });
        labels.collect()
    }
}

/// Digest of the image in the file `path`, after all checks.
pub(crate) fn digest(path: &Path) -> Result<String> {
    Ok(read::Image::open(path)?.digest)
}

/// A file with a small image, and its digest.
#[cfg(test)]
pub(crate) fn small() -> (Vec<u8>, String) {
    let written = layout::tests::image(&[Platform::Amd64]);
    (written.bytes, written.digest.to_string())
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let output = args.output.clone().unwrap_or_else(|| target_dir().join("image"));
    fs::create_dir_all(&output).with_context(|| format!("create {}", output.display()))?;
    let mut platforms = args.platform.clone();
    if platforms.is_empty() {
        platforms.push(Platform::host());
    }
    platforms.sort_unstable();
    platforms.dedup();
    let (revision, created) = (revision()?, created()?);
    let write = |name: &str, content: &[u8]| {
        let path = output.join(name);
        fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
        anyhow::Ok(path)
    };
    for package in package::select(&args.controllers)? {
        let about = About {
            package,
            revision: revision.clone(),
            created,
            source: args.source.clone(),
        };
        let variants = platforms
            .iter()
            .map(|platform| variant(&about, *platform))
            .collect::<Result<Vec<_>>>()?;
        let name = &about.package.name;
        for Variant { platform, sbom, .. } in &variants {
            // The image has the SBOM as well; this file is for use without a registry.
            let file = format!("{name}-linux-{}.spdx.json", platform.arch());
            write(&file, &serde_json::to_vec_pretty(sbom)?)?;
        }
        for (file, content) in plugin::files(&about, &variants)? {
            write(&file, &content)?;
        }
        let image = layout::write(&about, &variants)?;
        let path = write(&format!("{name}.tar"), &image.bytes)?;
        println!("{} {}", path.display(), image.digest);
    }
    Ok(())
}

/// The image for one platform.
fn variant(about: &About, platform: Platform) -> Result<Variant> {
    let built = Binary::build(&about.package.name, platform, &about.revision)?;
    let parts = sbom::parts(&about.package.name, platform)?;
    let document = auditable::of(&about.package.name, &parts);
    let binary = auditable::add(&document, &built.path, &built.objcopy()?)?;
    let sbom = sbom::of(about, &built, &parts, &binary)?;
    Ok(Variant {
        platform,
        binary,
        sbom,
    })
}

fn revision() -> Result<String> {
    let commit = git(&["rev-parse", "HEAD"])?;
    let changed = !git(&["status", "--porcelain"])?.is_empty();
    Ok(if changed { commit + "-dirty" } else { commit })
}

/// `$SOURCE_DATE_EPOCH`, else the time of the commit. The time of the build would change the bytes.
fn created() -> Result<Timestamp> {
    let seconds = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(seconds) => seconds,
        Err(_) => git(&["log", "-1", "--format=%ct"])?,
    };
    let seconds = seconds
        .parse()
        .with_context(|| format!("{seconds:?} is no time in seconds"))?;
    Timestamp::from_second(seconds).context("a time that no calendar has")
}

fn git(args: &[&str]) -> Result<String> {
    let output = command::output(Command::new("git").args(args).current_dir(root()))?;
    Ok(output.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dockerfile_builds_with_the_toolchain_that_builds_everything_else() {
        let read = |name| fs::read_to_string(root().join(name)).unwrap();
        let (dockerfile, toolchain) = (read("Dockerfile"), read("rust-toolchain.toml"));
        let channel = toolchain.split('"').nth(1).unwrap();
        assert!(dockerfile.contains(&format!(" rust:{channel}-slim-bookworm ")));
        assert!(dockerfile.contains(&format!("RUSTUP_TOOLCHAIN={channel}\n")));
    }

    #[test]
    fn a_label_without_a_value_is_left_out() {
        let package = package::select(&["ttl-controller".to_owned()]).unwrap().remove(0);
        let about = About {
            package,
            revision: "0123abc-dirty".to_owned(),
            created: Timestamp::UNIX_EPOCH,
            source: None,
        };
        let labels = about.labels();
        let value = |name: &str| {
            let name = format!("org.opencontainers.image.{name}");
            labels
                .iter()
                .find(|label| label.0 == name)
                .map(|label| label.1.as_str())
        };
        assert_eq!(value("title"), Some("ttl-controller"));
        assert_eq!(value("created"), Some("1970-01-01T00:00:00Z"));
        assert_eq!(value("revision"), Some("0123abc-dirty"));
        assert_eq!(value("source"), None);
    }
}
