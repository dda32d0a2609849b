//! Holds the house to its plan: who may import whom, where `unsafe` and printing may be, and that
//! files stay small and say what lives in them.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot read the sources must fail"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Each room and the rooms that it may import. `app` knows everybody; `main` knows `app` and `cli`.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    // The vocabulary.
    ("model", &[]),
    // Pure.
    // The words of a profile are those of the PCIe tree.
    ("config", &["model", "topology"]),
    ("plan", &["model"]),
    ("ledger", &["model"]),
    ("topology", &["model"]),
    ("nccl", &["model"]),
    ("judge", &["model", "plan", "ledger", "topology", "nccl"]),
    ("compare", &["model", "ledger", "topology", "judge"]),
    (
        "accept",
        &["model", "config", "ledger", "topology", "judge"],
    ),
    ("cli", &["model"]),
    // Hands.
    ("verbs", &["model"]),
    ("gpu", &["model", "verbs"]),
    ("survey", &["model"]),
    ("probe", &["model", "verbs", "gpu"]),
    ("wire", &["model"]),
    ("agent", &["model", "nccl", "wire", "survey", "probe"]),
    ("remote", &["model"]),
    (
        "cluster",
        &["model", "plan", "ledger", "nccl", "judge", "wire", "remote"],
    ),
    (
        "simulated",
        &["model", "config", "topology", "judge", "wire", "cluster"],
    ),
    ("record", &["model"]),
    // Faces.
    // Of `config` the folding of host lists.
    (
        "report",
        &[
            "model", "config", "ledger", "topology", "nccl", "judge", "compare",
        ],
    ),
    ("tui", &["model", "ledger", "topology", "judge"]),
];

/// Rooms whose whole business it is to print, or that talk to a person before anything runs.
const MAY_PRINT: &[&str] = &["app", "report"];

/// Rooms that cross into C.
const MAY_BE_UNSAFE: &[&str] = &["verbs", "gpu"];

const MAX_LINES: usize = 500;

struct Source {
    path: PathBuf,
    room: String,
    /// The file up to its tests.
    code: String,
    whole: String,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    collect(&root, &root, &mut found);
    assert!(found.len() > 50, "only {} source files found", found.len());
    found
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let inside = path.strip_prefix(root).unwrap();
            let first = inside
                .components()
                .next()
                .unwrap()
                .as_os_str()
                .to_str()
                .unwrap();
            let room = first.trim_end_matches(".rs").to_owned();
            let whole = fs::read_to_string(&path).unwrap();
            let code = whole.split("#[cfg(test)]\nmod ").next().unwrap().to_owned();
            found.push(Source {
                path: inside.to_owned(),
                room,
                code,
                whole,
            });
        }
    }
}

/// Files that exist for tests only.
fn is_test(source: &Source) -> bool {
    let name = source.path.file_stem().unwrap().to_str().unwrap();
    name.contains("test")
}

fn imports(code: &str) -> BTreeSet<String> {
    let uses = code
        .match_indices("crate::")
        .map(|(at, found)| &code[at + found.len()..]);
    uses.map(|rest| {
        rest.chars()
            .take_while(|c| c.is_ascii_lowercase() || *c == '_')
            .collect()
    })
    .collect()
}

#[test]
fn rooms_import_only_what_they_may() {
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| !is_test(source)) {
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(room, _)| *room == source.room) else {
            assert!(
                ["app", "main", "lib"].contains(&source.room.as_str()),
                "{} is in no known room",
                source.path.display()
            );
            continue;
        };
        for import in imports(&source.code) {
            if import != source.room && !import.is_empty() && !allowed.contains(&import.as_str()) {
                wrong.push(format!("{} imports {import}", source.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_file_says_what_lives_there() {
    let silent: Vec<_> = sources()
        .into_iter()
        .filter(|s| !s.whole.starts_with("//! "))
        .map(|s| s.path)
        .collect();
    assert!(silent.is_empty(), "{silent:?}");
}

#[test]
fn no_file_is_longer_than_a_reader_can_hold() {
    let long: Vec<_> = sources()
        .into_iter()
        .filter(|source| !is_test(source) && source.code.lines().count() > MAX_LINES)
        .map(|source| source.path)
        .collect();
    assert!(
        long.is_empty(),
        "more than {MAX_LINES} lines before the tests: {long:?}"
    );
}

#[test]
fn unsafe_lives_at_the_border_only() {
    for source in sources() {
        let blocks = source.code.lines().filter(|line| {
            let code = line.split("//").next().unwrap_or_default();
            ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"]
                .iter()
                .any(|word| code.contains(word))
        });
        let allowed = MAY_BE_UNSAFE.contains(&source.room.as_str());
        assert!(
            allowed || blocks.count() == 0,
            "{} is unsafe",
            source.path.display()
        );
    }
}

#[test]
fn only_faces_print() {
    for source in sources().iter().filter(|source| !is_test(source)) {
        if MAY_PRINT.contains(&source.room.as_str()) || source.room == "main" {
            continue;
        }
        for word in ["println!", "eprintln!", "print!(", "eprint!(", "dbg!("] {
            assert!(
                !source.code.contains(word),
                "{} has {word}",
                source.path.display()
            );
        }
    }
}
