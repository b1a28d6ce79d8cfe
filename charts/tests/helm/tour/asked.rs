//! Commands that cannot run here run with `--help`.

use std::fs;
use std::process::Command;

use crate::documents::command_words;
use crate::process::binary;
use crate::support::{CHARTS, root};

/// Programs and parts of commands that cannot run here, and why. They run with `--help` instead, which fails after an
/// unknown flag.
pub(super) const ASKED: [(&str, &str); 7] = [
    ("cargo", "it builds or runs what this test is a part of"),
    ("cosign", "it needs a published image"),
    ("docker", "it needs a daemon"),
    ("gh", "it needs a published image"),
    ("kind", "it needs nodes in containers"),
    (" port-forward ", "it needs a kubelet"),
    ("oras", "it needs a published image"),
];

/// Fails unless the program of a command accepts its flags.
pub(super) fn ask(command: &str) {
    let (asked, _) = command.split_once(" -- ").unwrap_or((command, ""));
    let asked = asked.trim_end_matches('&');
    let words: Vec<_> = command_words(asked).collect();
    let mut line = asked.replace("sudo ", "");
    let program = match words.as_slice() {
        ["cargo", "xtask", "demo", ..] => Some(("cargo xtask demo", binary("demo"))),
        ["cargo", "xtask", tool, ..] if is_tool(tool) => Some(("cargo xtask", binary("tools"))),
        ["cargo", "xtask", ..] => Some(("cargo xtask", binary("xtask"))),
        ["kubectl", "drain-blockers", ..] => {
            line = line.replacen("kubectl drain-blockers", "disruption-controller blockers", 1);
            Some(("disruption-controller", binary("disruption-controller")))
        }
        ["cargo", ..] => {
            names_what_is_there(&words);
            None
        }
        ["kubectl", "krew", ..] if !is_there("kubectl-krew") => {
            println!("left out: {asked}: there is no kubectl-krew");
            return;
        }
        [name, ..] if CHARTS.contains(name) => Some((*name, binary(name))),
        [name, ..] => {
            if !is_there(name) {
                println!("left out: {asked}: there is no {name}");
                return;
            }
            None
        }
        [] => return,
    };
    if let Some((name, program)) = program {
        line = line.replacen(name, &program.display().to_string(), 1);
    }
    // The reader of a pipe gets an empty list.
    let (line, reader) = line.split_once(" | ").unwrap_or((&line, ""));
    let mut steps = vec![format!("{line} --help")];
    if command_words(reader).next().is_some_and(is_there) {
        steps.push(format!("echo '{{\"items\": []}}' | {reader}"));
    }
    for step in steps {
        let output = Command::new("sh")
            .args(["-c", &step])
            .current_dir(root())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {errors}");
    }
}

fn is_tool(name: &str) -> bool {
    let help = Command::new(binary("tools")).args([name, "--help"]).output();
    help.unwrap().status.success()
}

fn is_there(program: &str) -> bool {
    let find = match program {
        // A plugin of docker.
        "docker" => "docker buildx version".to_owned(),
        program => format!("command -v {program}"),
    };
    Command::new("sh")
        .args(["-c", &find])
        .output()
        .unwrap()
        .status
        .success()
}

/// Fails unless the package and the target in a cargo command exist.
fn names_what_is_there(words: &[&str]) {
    let value = |flags: &[&str]| {
        let at = words.iter().position(|word| flags.contains(word))?;
        words.get(at + 1).copied()
    };
    let package =
        value(&["-p", "--package", "--bin"]).filter(|name| name.chars().any(|c| c.is_ascii_lowercase()));
    let Some(package) = package else { return };
    let folders = ["crates", "xtask"].map(|parent| root().join(parent).join(package));
    let folder = folders.iter().find(|folder| folder.is_dir());
    let folder = folder.unwrap_or_else(|| panic!("{words:?}: no package {package}"));
    for (flag, targets) in [("--test", "tests"), ("--example", "examples")] {
        if let Some(name) = value(&[flag]) {
            let target = folder.join(targets).join(name);
            let file = target.with_extension("rs");
            // A dependency by path, listed in the manifest.
            let elsewhere = format!("name = \"{name}\"\npath = ");
            let listed = || fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            assert!(
                file.is_file() || target.join("main.rs").is_file() || listed().contains(&elsewhere),
                "{words:?}: no {}",
                file.display()
            );
        }
    }
}
