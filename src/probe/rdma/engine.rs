//! The work requests of an end: messages by the batch, small ones, receives, and their completions.

use std::time::{Duration, Instant};

use crate::model::{ProbeKind, RemoteMemory};
use crate::probe::error::ProbeError;
use crate::probe::transfer::Engine;
use crate::verbs::{MemoryRegion, Opcode, Receive, RemoteSlot, WorkRequest};

use super::ends::Ends;

/// Marks the id of a receive; the rest is the index of its queue pair, as of every request.
const RECEIVE: u64 = 1 << 63;

/// How a kind of probe moves its messages.
pub(super) fn opcode(kind: ProbeKind) -> Opcode {
    match kind {
        ProbeKind::RdmaWriteImm => Opcode::WriteWithImmediate,
        ProbeKind::RdmaRead => Opcode::Read,
        ProbeKind::RdmaSend => Opcode::Send,
        _ => Opcode::Write,
    }
}

/// The request to move `length` bytes at `offset` to, or from, the same place at the peer.
fn request<'a>(
    opcode: Opcode,
    memory: &'a MemoryRegion,
    remote: &RemoteMemory,
    queue_pair: usize,
    offset: usize,
    length: u32,
) -> WorkRequest<'a> {
    WorkRequest {
        id: queue_pair as u64,
        opcode,
        memory,
        offset,
        length,
        remote: RemoteSlot {
            address: remote.address + offset as u64,
            key: remote.rkey,
        },
        signalled: true,
        inline: false,
    }
}

impl Ends {
    /// Posts all the receives of this end, where it has any.
    pub fn post_first_receives(&mut self) -> Result<(), ProbeError> {
        if !self.job.receives() {
            return Ok(());
        }
        for queue_pair in 0..self.queue_pairs.len() {
            self.post_receives(queue_pair, 0, self.job.depths().1)?;
        }
        Ok(())
    }

    /// Posts receives for `count` messages of a queue pair, the first being its `sequence`-th: each
    /// into the slot that the message has at the sender.
    pub fn post_receives(
        &mut self,
        queue_pair: usize,
        sequence: u64,
        count: u32,
    ) -> Result<(), ProbeError> {
        let Self {
            queue_pairs,
            memory,
            job,
            ..
        } = self;
        let (shape, memory) = (&job.shape, &*memory);
        let place = |sequence: u64| match (job.kind, job.ping_pong) {
            (ProbeKind::RdmaSend, true) => Some((memory, job.incoming(), shape.message)),
            (ProbeKind::RdmaSend, false) => {
                Some((memory, shape.slot(queue_pair, sequence), shape.message))
            }
            _ => None,
        };
        let receives: Vec<Receive<'_>> = (sequence..sequence + u64::from(count))
            .map(|sequence| Receive {
                id: RECEIVE | queue_pair as u64,
                place: place(sequence),
            })
            .collect();
        Ok(queue_pairs[queue_pair].post_receives(&receives)?)
    }

    /// Waits for completions, not beyond `deadline`; appends the queue pairs of requests to `sent`,
    /// those of receives to `received`.
    pub fn await_both(
        &mut self,
        sent: &mut Vec<usize>,
        received: &mut Vec<usize>,
        deadline: Instant,
    ) -> Result<(), ProbeError> {
        self.done.clear();
        self.completions.wait(&mut self.done, deadline)?;
        self.sort_out(sent, received)
    }

    /// The same, without waiting.
    pub fn poll_both(
        &mut self,
        sent: &mut Vec<usize>,
        received: &mut Vec<usize>,
    ) -> Result<(), ProbeError> {
        self.done.clear();
        self.completions.poll(&mut self.done)?;
        self.sort_out(sent, received)
    }

    fn sort_out(&self, sent: &mut Vec<usize>, received: &mut Vec<usize>) -> Result<(), ProbeError> {
        for completion in &self.done {
            // The id is the one that was posted; on failure too.
            let index = (completion.request & !RECEIVE) as usize;
            if let Some(error) = self.queue_pairs[index].completion_error(completion) {
                return Err(error.into());
            }
            match completion.request & RECEIVE {
                0 => sent.push(index),
                _ => received.push(index),
            }
        }
        Ok(())
    }

    /// Posts a message of a ping-pong, into the peer's place for what comes in.
    pub fn post_ball(&mut self) -> Result<(), ProbeError> {
        let length = self.job.shape.message;
        let incoming = self.job.incoming() as u64;
        let Some(queue_pair) = self.queue_pairs.first_mut() else {
            return Err(no_queue_pair());
        };
        let inline = length <= queue_pair.inline_bytes();
        let ball = request(
            opcode(self.job.kind),
            &self.memory,
            &self.remote,
            0,
            0,
            length,
        );
        let ball = WorkRequest {
            remote: RemoteSlot {
                address: self.remote.address + incoming,
                key: self.remote.rkey,
            },
            inline,
            ..ball
        };
        Ok(queue_pair.post(&[ball])?)
    }
}

impl Engine for Ends {
    fn post_batch(&mut self, queue_pair: usize, sequence: u64) -> Result<(), ProbeError> {
        let Self {
            queue_pairs,
            memory,
            remote,
            job,
            staging,
            stage,
            ..
        } = self;
        let (shape, opcode) = (&job.shape, opcode(job.kind));
        let slots = (sequence..sequence + u64::from(shape.batch))
            .map(|sequence| shape.slot(queue_pair, sequence));
        if !staging.is_empty() {
            for slot in slots.clone() {
                memory.copy_in(slot, &staging[slot..slot + shape.message as usize])?;
            }
        }
        if let Some(stage) = stage {
            for slot in slots.clone() {
                stage.fetch(slot, shape.message as usize)?;
            }
        }
        let memory = &*memory;
        let mut batch: Vec<WorkRequest<'_>> = slots
            .map(|slot| WorkRequest {
                signalled: false,
                ..request(opcode, memory, remote, queue_pair, slot, shape.message)
            })
            .collect();
        if let Some(last) = batch.last_mut() {
            last.signalled = true;
        }
        Ok(queue_pairs[queue_pair].post(&batch)?)
    }

    fn post_small(&mut self, bytes: u32) -> Result<(), ProbeError> {
        let length = bytes.min(self.job.shape.message);
        let request = request(Opcode::Write, &self.memory, &self.remote, 0, 0, length);
        match self.queue_pairs.first_mut() {
            Some(queue_pair) => Ok(queue_pair.post(&[request])?),
            None => Err(no_queue_pair()),
        }
    }

    fn wait(&mut self, completed: &mut Vec<usize>, deadline: Instant) -> Result<(), ProbeError> {
        // The sender of a transfer posts no receives.
        self.await_both(completed, &mut Vec::new(), deadline)
    }

    fn stall_error(&self, silence: Duration, outstanding: u64) -> ProbeError {
        match self.queue_pairs.first() {
            Some(queue_pair) => queue_pair.stall_error(silence, outstanding).into(),
            None => no_queue_pair(),
        }
    }
}

pub(super) fn no_queue_pair() -> ProbeError {
    ProbeError::Spec {
        why: "there is no queue pair".into(),
    }
}
