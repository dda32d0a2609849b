//! Which NUMA nodes are of one socket: a processor may be cut into several (NPS4, SNC), and the way
//! between those is no interconnect.

use crate::model::NumaNode;

/// The NUMA nodes of a machine, by socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sockets(Vec<Vec<u32>>);

/// Memory of another socket takes twice as long or more, which is 20 in the firmware's table and
/// the kernel's word where there is none (REMOTE_DISTANCE). Parts of one processor are at 11 to 13.
const ANOTHER_SOCKET: u32 = 20;

impl Sockets {
    /// By the distances between NUMA nodes.
    pub fn of(nodes: &[NumaNode]) -> Self {
        let mut sockets: Vec<Vec<u32>> = Vec::new();
        for node in nodes {
            let is_near = |number: &u32| {
                let column = nodes.iter().position(|other| other.number == *number);
                let distance = column.and_then(|column| node.distances.get(column));
                distance.is_some_and(|distance| *distance < ANOTHER_SOCKET)
            };
            match sockets.iter_mut().find(|socket| socket.iter().any(is_near)) {
                Some(socket) => socket.push(node.number),
                None => sockets.push(vec![node.number]),
            }
        }
        Self(sockets)
    }

    /// The socket of a NUMA node, counted from 0.
    pub fn socket(&self, numa_node: u32) -> Option<usize> {
        self.0.iter().position(|socket| socket.contains(&numa_node))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::pcie::numa;

    fn sockets(distances: &[&[u32]]) -> Vec<Vec<u32>> {
        Sockets::of(numa(distances).value().unwrap()).0
    }

    #[test]
    fn parts_of_a_processor_are_one_socket() {
        assert_eq!(sockets(&[&[10]]), [[0]]);
        assert_eq!(sockets(&[&[10, 21], &[21, 10]]), [[0], [1]]);
        // A processor with SNC2, one with NPS2 twice.
        assert_eq!(sockets(&[&[10, 12], &[12, 10]]), [[0, 1]]);
        let two = [
            &[10, 12, 32, 32][..],
            &[12, 10, 32, 32],
            &[32, 32, 10, 12],
            &[32, 32, 12, 10],
        ];
        assert_eq!(sockets(&two), [[0, 1], [2, 3]]);
    }

    #[test]
    fn a_table_with_holes_joins_nothing() {
        assert_eq!(sockets(&[&[10], &[]]), [[0], [1]]);
        let sockets = Sockets::of(&[]);
        assert_eq!((sockets.count(), sockets.socket(0)), (0, None));
    }
}
