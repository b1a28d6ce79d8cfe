//! The binaries of the control plane.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::Error;

/// The programs that every control plane needs; each is a file of that name in the directory of [`Assets`]. The assets
/// of `setup-envtest` have no others, so tests that start kube-controller-manager or kube-scheduler fail with them.
pub const REQUIRED: [&str; 2] = ["etcd", "kube-apiserver"];

/// A directory that holds all of [`REQUIRED`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assets(PathBuf);

impl Assets {
    /// The directory in `$KUBEBUILDER_ASSETS` if it is set and not empty, else those built by `cargo xtask
    /// control-plane`.
    pub fn find() -> Result<Self, Error> {
        let named = std::env::var_os("KUBEBUILDER_ASSETS").filter(|dir| !dir.is_empty());
        let dir = named.map_or_else(Self::built, PathBuf::from);
        Self::in_dir(&dir)
    }

    /// The programs in `dir`, which must hold all of [`REQUIRED`].
    pub fn in_dir(dir: &Path) -> Result<Self, Error> {
        let found = Self(dir.to_owned());
        for program in REQUIRED {
            found.find_program(program)?;
        }
        Ok(found)
    }

    /// The path of a program, which must be there.
    pub(super) fn find_program(&self, program: &'static str) -> Result<PathBuf, Error> {
        let path = self.program(program);
        if path.is_file() {
            return Ok(path);
        }
        Err(Error::NoAssets {
            program,
            dir: self.0.clone(),
        })
    }

    /// The directory in which `cargo xtask control-plane` puts them: `target/control-plane/` of this workspace.
    pub fn built() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/control-plane")
    }

    /// The directory that holds the programs.
    pub fn dir(&self) -> &Path {
        &self.0
    }

    /// The minor version of Kubernetes 1 that the programs are from; runs kube-apiserver.
    pub fn minor(&self) -> Result<u32, Error> {
        let program = self.program("kube-apiserver");
        let asked = Command::new(&program).arg("--version").output();
        let said = asked.map_err(|source| Error::Process {
            doing: "start",
            program: "kube-apiserver --version".to_owned(),
            source,
        })?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        minor_of(&said).ok_or(Error::NoVersion { program, said })
    }

    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

/// The version in which this minor version of Kubernetes 1 serves `PodGroups`.
pub const fn pod_groups_version(minor: u32) -> &'static str {
    if minor < 37 { "v1alpha2" } else { "v1beta1" }
}

/// `Kubernetes v1.37.2` → 37.
fn minor_of(said: &str) -> Option<u32> {
    let numbers = said.trim().strip_prefix("Kubernetes v1.")?;
    numbers.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_what_the_api_server_says() {
        assert_eq!(minor_of("Kubernetes v1.37.2\n"), Some(37));
        assert_eq!(minor_of("Kubernetes v1.36.3-gke.1\n"), Some(36));
        assert_eq!(minor_of("Kubernetes v0.0.0-master+$Format:%H$"), None);
        assert_eq!(minor_of(""), None);
    }

    #[test]
    fn a_directory_that_lacks_a_program_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("etcd"), "").unwrap();
        let error = Assets::in_dir(dir.path()).unwrap_err().to_string();
        assert!(error.starts_with("find kube-apiserver in "), "{error}");
        assert!(error.contains("`cargo xtask control-plane`"), "{error}");

        std::fs::write(dir.path().join("kube-apiserver"), "").unwrap();
        let assets = Assets::in_dir(dir.path()).unwrap();
        assert_eq!(assets, Assets(dir.path().to_owned()));
        let error = assets.find_program("kube-scheduler").unwrap_err().to_string();
        assert!(error.starts_with("find kube-scheduler in "), "{error}");
    }
}
