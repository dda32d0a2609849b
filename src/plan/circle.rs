//! The circle method: a round-robin of n players without a table.

/// The partner of `player` in round `round` of a round-robin among `n` players, in constant time.
///
/// `n` is even; there are `n − 1` rounds, in which each two players meet exactly once. Players
/// `i` and `j` below `n − 1` meet where `i + j ≡ round (mod n − 1)`; the one that would meet
/// itself meets player `n − 1`. An odd number of players takes a bye as its last one.
///
/// # Panics
/// Where `n` is odd or zero, or `player` is not below it: a plan from such numbers would be wrong.
pub fn circle(n: usize, round: usize, player: usize) -> usize {
    assert!(
        n > 0 && n.is_multiple_of(2),
        "a round-robin needs an even number of players"
    );
    assert!(player < n, "player {player} of {n}");
    let m = n - 1;
    let round = round % m;
    if player == m {
        // The fixed point 2i ≡ round (mod m): m is odd, so n/2 is the inverse of 2.
        return round * (n / 2) % m;
    }
    let partner = (round + m - player) % m;
    if partner == player { m } else { partner }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn every_round_is_an_involution_without_fixed_points(half in 1usize..200, round in 0usize..400) {
            let n = 2 * half;
            for player in 0..n {
                let partner = circle(n, round, player);
                prop_assert_ne!(partner, player);
                prop_assert_eq!(circle(n, round, partner), player);
            }
        }

        #[test]
        fn each_two_meet_exactly_once(half in 1usize..40) {
            let n = 2 * half;
            let mut met = HashSet::new();
            for round in 0..n - 1 {
                for player in 0..n {
                    let partner = circle(n, round, player);
                    if player < partner {
                        prop_assert!(met.insert((player, partner)));
                    }
                }
            }
            prop_assert_eq!(met.len(), n * (n - 1) / 2);
        }
    }
}
