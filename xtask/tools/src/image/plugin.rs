//! The binary as a plugin of kubectl: an archive for each platform, and the manifest by which krew installs it.

use anyhow::{Context, Result};
use controller_core::app::App;
use disruption_controller::DisruptionController;
use serde_json::{Value, json};
use xtask::command::root;

use super::About;
use super::layout::{Archive, Variant, compressed, sha256};

/// A file of the release, by its name.
pub(super) type File = (String, Vec<u8>);

/// The archives and the manifest, if this controller is a plugin and the release has an address.
pub(super) fn files(about: &About, variants: &[Variant]) -> Result<Vec<File>> {
    let (package, source) = (&about.package, about.source.as_ref());
    let report = DisruptionController::REPORT.filter(|_| package.name == DisruptionController::ABOUT.name);
    let (Some(report), Some(source)) = (report, source) else {
        return Ok(Vec::new());
    };
    let license = std::fs::read(root().join("LICENSE")).context("read LICENSE")?;
    let tag = format!("{}-v{}", package.name, package.version);
    let (mut files, mut platforms) = (Vec::new(), Vec::new());
    for Variant { platform, binary, .. } in variants {
        let mut tar = Archive::new(about);
        tar.file(report.plugin, 0o755, binary)?;
        tar.file("LICENSE", 0o644, &license)?;
        let archive = compressed(&tar.finish()?)?;
        let name = format!("{}-linux-{}.tar.gz", report.plugin, platform.arch());
        platforms.push(json!({
            "selector": {"matchLabels": {"os": "linux", "arch": platform.arch()}},
            "uri": format!("{source}/releases/download/{tag}/{name}"),
            "sha256": sha256(&archive),
            "bin": report.plugin,
        }));
        files.push((name, archive));
    }
    // krew spells the command with dashes, and the binary with underscores.
    let command = report.plugin.trim_start_matches("kubectl-").replace('_', "-");
    let manifest = manifest(
        &command,
        &package.version,
        &format!("{source}/blob/{tag}/docs/drain.md"),
        &platforms,
    );
    files.push((
        format!("{command}.yaml"),
        serde_saphyr::to_string(&manifest)?.into_bytes(),
    ));
    Ok(files)
}

fn manifest(command: &str, version: &str, homepage: &str, platforms: &[Value]) -> Value {
    json!({
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": command},
        "spec": {
            "version": format!("v{version}"),
            "homepage": homepage,
            "shortDescription": "Show what blocks a drain, and what to change",
            "description": "Says of each pod of the nodes whether kubectl drain can evict it now, later or never, why, and \
                            which field to change. It only reads.\n",
            "platforms": platforms,
        },
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::super::Platform;
    use super::super::layout::tests::about;
    use super::*;

    fn released(controller: &str, source: Option<&str>) -> Vec<File> {
        let mut about = about();
        controller.clone_into(&mut about.package.name);
        about.source = source.map(str::to_owned);
        let variant = |platform| Variant {
            platform,
            binary: b"binary".to_vec(),
            sbom: json!({}),
        };
        files(&about, &[Platform::Amd64, Platform::Arm64].map(variant)).unwrap()
    }

    #[test]
    fn krew_finds_the_archive_of_each_platform_by_its_digest() {
        let files = released(
            "disruption-controller",
            Some("https://example.com/us/controllers"),
        );
        let [(amd64, archive), (arm64, _), (manifest, text)] = files.as_slice() else {
            panic!("{} files", files.len());
        };
        let names = [amd64, arm64, manifest].map(String::as_str);
        assert_eq!(
            names,
            [
                "kubectl-drain_blockers-linux-amd64.tar.gz",
                "kubectl-drain_blockers-linux-arm64.tar.gz",
                "drain-blockers.yaml",
            ]
        );
        let manifest: Value = serde_saphyr::from_str(std::str::from_utf8(text).unwrap()).unwrap();
        assert_eq!(manifest["metadata"]["name"], "drain-blockers");
        let spec = &manifest["spec"];
        let platform = &spec["platforms"][0];
        assert_eq!(platform["sha256"], sha256(archive));
        let release = "https://example.com/us/controllers/releases/download/disruption-controller-v1.2.3";
        assert_eq!(platform["uri"], format!("{release}/{amd64}"));
        assert_eq!(spec["version"], "v1.2.3");
        let mut unpacked = tar::Archive::new(flate2::read::GzDecoder::new(archive.as_slice()));
        let found = unpacked.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (
                entry.path().unwrap().display().to_string(),
                entry.header().mode().unwrap(),
                content,
            )
        });
        let found: Vec<_> = found.collect();
        assert_eq!(
            found[0],
            ("kubectl-drain_blockers".to_owned(), 0o755, b"binary".to_vec())
        );
        assert_eq!(found[1].0, "LICENSE");
        assert_eq!(platform["bin"], *found[0].0);
    }

    #[test]
    fn what_is_no_plugin_or_has_no_address_is_none() {
        assert_eq!(
            released("ttl-controller", Some("https://example.com/us/controllers")),
            []
        );
        assert_eq!(released("disruption-controller", None), []);
    }
}
