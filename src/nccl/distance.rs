//! NCCL's numbers for how far a GPU and a NIC are from each other: their meaning changes with the version.

/// `2.22.3`.
type Numbers = (u32, u32, u32);

/// The words from a version on, in the order of their numbers.
const WORDS: [(Numbers, &[&str]); 9] = [
    ((2, 4, 0), &["PIX", "PXB", "PHB", "NODE", "SYS"]),
    // 2.5 has numbers of its own, of which no list is known.
    ((2, 5, 0), &[]),
    (
        (2, 6, 4),
        &["LOC", "NVL", "PIX", "PXB", "PHB", "SYS", "NET"],
    ),
    (
        (2, 8, 0),
        &["LOC", "NVL", "NVB", "PIX", "PXB", "PHB", "SYS", "NET"],
    ),
    (
        (2, 12, 0),
        &["LOC", "NVL", "NVB", "PIX", "PXB", "PXN", "PHB", "SYS"],
    ),
    (
        (2, 21, 0),
        &[
            "LOC", "NVL", "NVB", "PIX", "PXB", "PXN", "PHB", "SYS", "NET", "DIS",
        ],
    ),
    (
        (2, 26, 0),
        &[
            "LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "PXN", "PHB", "SYS", "NET", "DIS",
        ],
    ),
    (
        (2, 27, 0),
        &[
            "LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "PXN", "P2C", "PHB", "SYS", "NET", "DIS",
        ],
    ),
    (
        (2, 27, 5),
        &[
            "LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS",
        ],
    ),
];

/// The numbers of `NCCL 2.22.3+cuda12.6`.
pub(super) fn version(text: &str) -> Option<Numbers> {
    let numbers = text.split(' ').nth(1)?;
    let mut numbers = numbers.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse().ok();
    Some((next()?, next()?, next().unwrap_or(0)))
}

/// What a number means in a version: `SYS`.
pub(super) fn word(version: Numbers, distance: u32) -> Option<&'static str> {
    let (_, words) = WORDS.iter().rev().find(|(from, _)| *from <= version)?;
    words.get(usize::try_from(distance).ok()?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_means_what_its_version_means() {
        for (text, distance, expected) in [
            ("NCCL 2.3.7+cuda9.0", 1, None),
            ("NCCL 2.4.8+cuda10.0", 4, Some("SYS")),
            ("NCCL 2.5.6+cuda10.2", 2, None),
            ("NCCL 2.7.8+cuda11.0", 5, Some("SYS")),
            ("NCCL 2.11.4+cuda11.4", 5, Some("PHB")),
            ("NCCL 2.20.5+cuda12.4", 8, None),
            ("NCCL 2.25.1+cuda12.8", 7, Some("SYS")),
            ("NCCL 2.26.2+cudaCUDA_MAJOR.CUDA_MINOR", 4, Some("PIX")),
            ("NCCL 2.27.3+cuda12.9", 7, Some("P2C")),
            ("NCCL 2.27.7+cuda12.9", 7, Some("PXN")),
            ("NCCL 2.30.3+cuda13.0", 8, Some("PHB")),
            ("RCCL 2.21.5-HEAD:9a0e6a1", 0, Some("LOC")),
        ] {
            assert_eq!(word(version(text).unwrap(), distance), expected, "{text}");
        }
        assert_eq!(version("NCCL x"), None);
    }
}
