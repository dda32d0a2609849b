//! The lab's command line.
fn main() {}
