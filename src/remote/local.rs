//! This machine as a node: the same bootstrap and the same agent, without a network.

use super::bootstrap::Bootstrap;
use super::command::carry_process;
use super::{Carrier, Ended, Outbox, Payload, RemoteError, Sink, Target};

/// Starts the agent on this machine; host, port and user of the target are not looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalCarrier;

impl Carrier for LocalCarrier {
    fn carry(
        &self,
        target: &Target,
        payload: &Payload,
        outbox: Outbox,
        sink: &mut dyn Sink,
    ) -> Result<Ended, RemoteError> {
        let mut run = || {
            let bootstrap = Bootstrap::new(payload)?;
            carry_process(&bootstrap.argv(), bootstrap, payload, &outbox, sink)
        };
        run().map_err(|failure| failure.on(&target.node))
    }
}
