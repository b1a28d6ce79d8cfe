//! Runs other programs: always in the workspace, shown before they run, with an error when they fail.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

pub fn root() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}

/// The folders in `crates/`, sorted by name.
pub fn crates() -> Result<Vec<PathBuf>> {
    let parent = root().join("crates");
    let found = folders(&parent)?.into_iter().map(|name| parent.join(name));
    Ok(found.filter(|path| path.join("Cargo.toml").is_file()).collect())
}

/// The names of the folders in `parent`, sorted.
pub fn folders(parent: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in parent
        .read_dir()
        .with_context(|| format!("list {}", parent.display()))?
    {
        let path = entry?.path();
        if path.is_dir() {
            found.push(name(&path));
        }
    }
    found.sort();
    Ok(found)
}

/// Name of a crate, which is that of its folder.
pub fn name(of: &Path) -> String {
    of.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// `cargo args`, not yet started.
pub fn cargo<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new("cargo");
    command.args(args).current_dir(root());
    forget_package(&mut command);
    command
}

/// Removes the variables about the current package, which cargo sets for the program it runs, from `command`. With
/// them, build scripts that read them (ring's) would run again after each call of cargo by hand, and recompile half of
/// the tree.
pub fn forget_package(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let told = name.to_string_lossy();
        if told.starts_with("CARGO_PKG_") || told.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
}

/// Cargo's target directory.
pub fn target_dir() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// `git args`, not yet started.
pub fn git<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new("git");
    command.args(args).current_dir(root());
    command
}

/// `cargo xtask tool` in the crate `tools`, not yet started.
pub fn tool(name: &str) -> Command {
    cargo(["run", "--quiet", "--package", "tools", "--", name])
}

/// Builds a binary as released; returns its path.
pub fn release_binary(name: &str) -> Result<PathBuf> {
    run(&mut cargo(["build", "--release", "--bin", name]))?;
    Ok(target_dir().join("release").join(name))
}

/// Shows `command` on standard error and runs it. Standard output has only the output of the tool, for scripts.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = show(command);
    eprintln!("$ {shown}");
    let status = command.status().with_context(|| format!("start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed: {status}");
    }
    Ok(())
}

/// Shows `command`, runs it, and returns its output.
pub fn output(command: &mut Command) -> Result<String> {
    let shown = show(command);
    eprintln!("$ {shown}");
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("start `{shown}`"))?;
    if !output.status.success() {
        bail!("`{shown}` failed: {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("read what `{shown}` prints"))
}

/// The command as typed in a shell, with its variables first.
fn show(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        let value = value?.to_string_lossy();
        Some(format!("{}={}", name.to_string_lossy(), quoted(&value)))
    });
    let words = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| quoted(&word.to_string_lossy()));
    variables.chain(words).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    if word.contains(char::is_whitespace) {
        format!("'{word}'")
    } else {
        word.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        let mut doc = cargo(["doc", "--no-deps"]);
        doc.env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(show(&doc), "RUSTDOCFLAGS='-D warnings' cargo doc --no-deps");
    }

    #[test]
    fn a_command_that_fails_is_an_error_with_its_text() {
        let error = run(Command::new("sh").args(["-c", "exit 3"])).unwrap_err();
        assert_eq!(error.to_string(), "`sh -c 'exit 3'` failed: exit status: 3");
        assert!(run(&mut Command::new("true")).is_ok());
    }

    #[test]
    fn the_crates_are_found() {
        let names: Vec<String> = crates().unwrap().iter().map(|path| name(path)).collect();
        assert!(names.contains(&"controller-core".to_owned()), "{names:?}");
        assert!(names.is_sorted());
    }
}
