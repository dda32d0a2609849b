//! What nccl-tests print of themselves: a row for each size, and at the end whether all was right and
//! the mean bandwidth. Their GB/s are 10^9 bytes a second.

/// The most that is believed of a bandwidth, in GB/s.
const MOST_GB_PER_S: f64 = 1e6;

/// The types of data that nccl-tests know.
const TYPES: [&str; 14] = [
    "int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16",
    "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2",
];

/// A row: one size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TestRow {
    /// The size, in bytes.
    pub bytes: u64,
    /// How long one operation took, in µs, out of place.
    pub time_us: f64,
    /// Size by time, in GB/s, out of place.
    pub algorithm_gb_per_s: f64,
    /// The same by what goes through each link (nccl-tests, PERFORMANCE.md), in GB/s, out of place.
    pub bus_gb_per_s: f64,
}

/// What nccl-tests measured.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TestResults {
    /// The row of the largest size.
    pub largest: Option<TestRow>,
    /// The mean of the bus bandwidth over all rows, in GB/s.
    pub mean_bus_gb_per_s: Option<f64>,
    /// How many values were wrong; `None` where that was not looked at, or not said.
    pub wrong: Option<u64>,
}

/// A line, read.
enum Read {
    Row(TestRow, Option<u64>),
    Mean(f64),
    Wrong(u64),
}

impl TestResults {
    /// The results among lines.
    pub fn of<'a>(lines: impl Iterator<Item = &'a str>) -> Self {
        let mut results = Self::default();
        let mut wrong = 0_u64;
        for result in lines.filter_map(read) {
            match result {
                Read::Row(row, count) => {
                    if results.largest.is_none_or(|known| known.bytes <= row.bytes) {
                        results.largest = Some(row);
                    }
                    if let Some(count) = count {
                        wrong = wrong.saturating_add(count);
                        results.wrong = Some(wrong);
                    }
                }
                Read::Mean(mean) => results.mean_bus_gb_per_s = Some(mean),
                // Where the rows count them, too, they count the same.
                Read::Wrong(count) => results.wrong = Some(count.max(wrong)),
            }
        }
        results
    }
}

/// Whether a line is a result.
pub(super) fn is_result(line: &str) -> bool {
    read(line).is_some()
}

fn read(line: &str) -> Option<Read> {
    let number = |rest: &str| {
        let word = rest
            .trim_start_matches([' ', ':'])
            .split_whitespace()
            .next();
        word.map(str::to_owned)
    };
    if let Some((_, rest)) = line.split_once("# Avg bus bandwidth") {
        return bandwidth(&number(rest)?).map(Read::Mean);
    }
    if let Some((_, rest)) = line.split_once("# Out of bounds values") {
        return number(rest)?.parse().ok().map(Read::Wrong);
    }
    row(line)
}

/// `8388608  2097152  float  sum  -1  215.6  38.9  72.9  0  214.1  39.2  73.5  0`: up to 2.12 without
/// the root, and behind whatever a launcher puts before it. The four behind are those in place.
fn row(line: &str) -> Option<Read> {
    let plain = without_tags(line);
    let words: Vec<&str> = plain.split_whitespace().collect();
    let kind = words.iter().rposition(|word| TYPES.contains(word))?;
    let bytes = words.get(kind.checked_sub(2)?)?.parse().ok()?;
    let measured = match words.len().checked_sub(kind + 1)? {
        // Operation, root, and eight numbers; without the root.
        10 => &words[kind + 3..],
        9 => &words[kind + 2..],
        _ => return None,
    };
    let wrong = [measured[3], measured[7]].map(|word| word.parse::<f64>().ok());
    let counted = wrong.iter().flatten().filter(|count| **count >= 1.0);
    let wrong = wrong[0].map(|_| counted.map(|count| *count as u64).sum());
    let row = TestRow {
        bytes,
        time_us: measured[0].parse().ok().filter(|time| *time >= 0.0)?,
        algorithm_gb_per_s: bandwidth(measured[1])?,
        bus_gb_per_s: bandwidth(measured[2])?,
    };
    Some(Read::Row(row, wrong))
}

fn bandwidth(word: &str) -> Option<f64> {
    let value: f64 = word.parse().ok()?;
    (0.0..=MOST_GB_PER_S).contains(&value).then_some(value)
}

/// Without `[1,0]<stdout>:`, which mpirun puts before each write of a rank, in the middle of rows, too.
fn without_tags(line: &str) -> String {
    let mut kept = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find("<std") {
        let before = &rest[..at];
        kept.push_str(before.rfind('[').map_or(before, |start| &before[..start]));
        kept.push(' ');
        rest = rest[at..].split_once(">:").map_or("", |(_, rest)| rest);
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "\
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     8388608       2097152     float     sum      -1    215.6   38.91   72.95      0    214.1   39.18   73.46      0
   134217728      33554432     float     sum      -1   2601.0   51.60   96.75      0   2590.2   51.82   97.16      2
# Out of bounds values : 2 FAILED
# Avg bus bandwidth    : 85.0807
";

    #[test]
    fn rows_and_the_end_are_read() {
        let results = TestResults::of(RUN.lines());
        let row = results.largest.unwrap();
        assert_eq!((row.bytes, row.time_us), (134_217_728, 2601.0));
        assert_eq!((row.algorithm_gb_per_s, row.bus_gb_per_s), (51.6, 96.75));
        assert_eq!(results.mean_bus_gb_per_s, Some(85.0807));
        assert_eq!(results.wrong, Some(2));
    }

    #[test]
    fn rows_of_other_versions_and_launchers_are_read() {
        for (line, wrong) in [
            (
                "0:    1024  256  float  sum  33.3  0.03  0.06  0  32.4  0.03  0.06  0",
                Some(0),
            ),
            (
                "1024 256 bfloat16 sum -1 33.3 0.03 0.06 N/A 32.4 0.03 0.06 N/A",
                None,
            ),
            (
                "1024 256 float sum 33.3 0.03 0.06 0e+00 32.4 0.03 0.06 0e+00",
                Some(0),
            ),
            (
                "[1,0]<stdout>:  1024 256 float sum -1[1,0]<stdout>: 33.3 0.03 0.06 1[1,0]<stdout>: \
                 32.4 0.03 0.06 1",
                Some(2),
            ),
        ] {
            let results = TestResults::of([line].into_iter());
            assert_eq!(results.largest.map(|row| row.bytes), Some(1024), "{line}");
            assert_eq!(
                results.largest.map(|row| row.bus_gb_per_s),
                Some(0.06),
                "{line}"
            );
            assert_eq!(results.wrong, wrong, "{line}");
        }
    }

    #[test]
    fn what_is_no_result_is_none() {
        for line in [
            "",
            "# Avg bus bandwidth    : nan",
            "# Avg bus bandwidth    : -1",
            "# Avg bus bandwidth",
            "1024 256 float sum -1 33.3 inf 0.06 0 32.4 0.03 0.06 0",
            "x 256 float sum -1 33.3 0.03 0.06 0 32.4 0.03 0.06 0",
            "float",
            "<std<std>:[<std",
        ] {
            assert!(!is_result(line), "{line}");
        }
    }
}
