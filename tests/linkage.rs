//! What the built binary asks the dynamic loader for.

use std::process::Command;

/// A node without rdma-core must still be able to start the agent.
#[test]
fn the_binary_does_not_need_libibverbs() {
    let binary = env!("CARGO_BIN_EXE_linerate");
    let output = match Command::new("readelf").arg("-d").arg(binary).output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("SKIPPED: readelf is missing (package binutils): {error}");
            return;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let needed: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .collect();
    assert!(
        needed.iter().any(|line| line.contains("libc.so")),
        "no libc? {text}"
    );
    assert!(
        !needed.iter().any(|line| line.contains("ibverbs")),
        "{needed:#?}"
    );
}
