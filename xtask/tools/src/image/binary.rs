//! Builds a controller's binary for images: static, without paths of the build machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::Platform;
use xtask::command::{self, cargo, root, target_dir};

/// A built binary.
pub(super) struct Binary {
    pub(super) platform: Platform,
    pub(super) path: PathBuf,
    /// The C compiler that linked it.
    compiler: &'static str,
}

impl Binary {
    /// Builds the release of `controller`, with `commit` as its commit.
    ///
    /// With `--target`, cargo keeps this build apart from the ordinary release build and applies the flags to it only:
    /// procedural macros cannot be static.
    pub(super) fn build(controller: &str, platform: Platform, commit: &str) -> Result<Self> {
        let triple = platform.triple();
        let compiler = compiler(platform)?;
        let key = |name: &str, value: &str| format!("--config=target.{triple}.{name}={value}");
        let mut build = cargo(["build", "--release", "--locked", "--package", controller]);
        build.args(["--bin", controller, "--target", triple]);
        build.arg(key("linker", &format!("{compiler:?}")));
        build.arg(key("rustflags", &format!("{:?}", flags(platform)?)));
        // These would replace the flags above.
        build
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS");
        command::run(build.env("BUILD_COMMIT", commit))?;
        Ok(Self {
            platform,
            path: target_dir().join(triple).join("release").join(controller),
            compiler,
        })
    }

    /// The `objcopy` for the binary's platform.
    pub(super) fn objcopy(&self) -> Result<String> {
        let mut ask = Command::new(self.compiler);
        Ok(command::output(ask.arg("-print-prog-name=objcopy"))?
            .trim()
            .to_owned())
    }

    /// Release of the linked C library, for example `2.36-9+deb12u14`.
    pub(super) fn libc(&self) -> Result<String> {
        let mut ask = Command::new(self.compiler);
        let path = command::output(ask.arg("-print-file-name=libc.a"))?;
        let archive = fs::read(path.trim()).with_context(|| format!("read {}", path.trim()))?;
        libc_release(&archive).with_context(|| format!("{} does not say which release it is", path.trim()))
    }
}

/// Banner of the C library: `GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36`.
fn libc_release(archive: &[u8]) -> Option<String> {
    const BANNER: &[u8] = b"GNU C Library (";
    let start = archive
        .windows(BANNER.len())
        .position(|window| window == BANNER)?
        + BANNER.len();
    let rest = archive.get(start..)?;
    let words = rest.split(|byte| *byte == b')').next()?;
    let release = words.rsplit(|byte| *byte == b' ').next()?;
    Some(String::from_utf8_lossy(release).into_owned())
}

/// Static; with the same paths in panic messages on every machine; with random numbers from the kernel only, as a
/// static program cannot look up the C library's function and an empty root has no `/dev/urandom`.
///
/// Relocations are packed, which saves 0.4 MiB of file and memory. Debian 12's linker for arm64 cannot pack them.
fn flags(platform: Platform) -> Result<Vec<String>> {
    let home = match std::env::var_os("CARGO_HOME") {
        Some(home) => PathBuf::from(home),
        None => std::env::home_dir()
            .context("where is cargo's home?")?
            .join(".cargo"),
    };
    let remap = |from: &Path, to| format!("--remap-path-prefix={}={to}", from.display());
    let mut flags = vec![
        "-Ctarget-feature=+crt-static".to_owned(),
        "--cfg=getrandom_backend=\"linux_getrandom\"".to_owned(),
        remap(&home, "/cargo"),
        remap(root(), "/source"),
    ];
    if platform == Platform::Amd64 {
        flags.push("-Clink-arg=-Wl,-z,pack-relative-relocs".to_owned());
    }
    Ok(flags)
}

/// The C compiler for `platform`; fails if it or Rust's library is missing.
pub(super) fn compiler(platform: Platform) -> Result<&'static str> {
    let triple = platform.triple();
    let mut ask = Command::new("rustc");
    let library = command::output(
        ask.args(["--print", "target-libdir", "--target", triple])
            .current_dir(root()),
    )?;
    if !Path::new(library.trim()).is_dir() {
        bail!("Rust's library for {triple} is missing: `rustup target add {triple}`");
    }
    if platform == Platform::host() {
        return Ok("cc");
    }
    let (compiler, packages) = match platform {
        Platform::Amd64 => (
            "x86_64-linux-gnu-gcc",
            "gcc-x86-64-linux-gnu libc6-dev-amd64-cross",
        ),
        Platform::Arm64 => (
            "aarch64-linux-gnu-gcc",
            "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
        ),
    };
    if Command::new(compiler).arg("--version").output().is_err() {
        bail!("{compiler} is missing: on Debian and Ubuntu `apt-get install {packages}`");
    }
    Ok(compiler)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dockerfile_gives_the_same_flags() {
        let dockerfile = fs::read_to_string(root().join("Dockerfile")).unwrap();
        for flag in flags(Platform::Amd64).unwrap() {
            let flag = flag.trim_start_matches("-C").trim_start_matches("--cfg=");
            // Docker always builds in the same folder.
            let of_paths = flag.starts_with("--remap-path-prefix");
            assert!(of_paths || dockerfile.replace('\\', "").contains(flag), "{flag}");
        }
    }

    #[test]
    fn the_release_of_the_c_library_is_found_in_its_archive() {
        let debian =
            b"\0\x7fELF\0GNU C Library (Debian GLIBC 2.36-9+deb12u14) stable release version 2.36.\n";
        assert_eq!(libc_release(debian).as_deref(), Some("2.36-9+deb12u14"));
        assert_eq!(libc_release(b"GNU C Library"), None);
    }
}
