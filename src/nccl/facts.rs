//! What processes say of devices, GPUs and the environment, kept once and in bounds.

use super::line::{TestRank, Trouble, Version};
use super::reader::{MAX_RANKS, NcclReader, Spoken};
use super::reading::{Device, GpuHca, Hca, TroubleSeen};
use super::support::{GpuSupport, HcaSupport, Refusal};

/// The most devices, reasons and GPUs that are kept of all processes.
const MAX_FACTS: usize = 1 << 20;

/// The most of each that are kept of one process; those of most nodes are fewer than 64.
pub(super) const MAX_OF_PROCESS: usize = 256;

/// The most versions, settings and troubles.
const MAX_FEW: usize = 64;

impl NcclReader {
    pub(super) fn version(&mut self, at: usize, version: Version<'_>) {
        let library: &[u8] = if version.rccl { b"RCCL " } else { b"NCCL " };
        let text = [library, &version.text[..version.text.len().min(64)]].concat();
        let Some(name) = self.names.keep(&text) else {
            return;
        };
        let versions = &mut self.log.versions;
        let known = versions.iter().position(|known| *known == name);
        let number = known.unwrap_or(versions.len());
        if known.is_none() {
            if versions.len() >= MAX_FEW {
                self.log.left_out.facts += 1;
                return;
            }
            versions.push(name);
        }
        self.log.processes[at].version = Some(number);
    }

    /// Whether one more fact of a process may be kept.
    fn has_room(&mut self, of_process: usize) -> bool {
        let has_room = of_process < MAX_OF_PROCESS && self.facts < MAX_FACTS;
        match has_room {
            true => self.facts += 1,
            false => self.log.left_out.facts += 1,
        }
        has_room
    }

    pub(super) fn device(&mut self, at: usize, sockets: bool, number: u32, name: &[u8]) {
        let devices = &self.log.processes[at].devices;
        let is_it = |d: &Device| d.sockets == sockets && d.number == number;
        if devices.iter().any(is_it) || !self.has_room(devices.len()) {
            return;
        }
        if let Some(name) = self.names.keep(name) {
            self.log.processes[at].devices.push(Device {
                sockets,
                number,
                name,
            });
        }
    }

    /// NICs of one device: their addresses are its name.
    pub(super) fn group(&mut self, at: usize, number: u32, address: &[u8]) {
        let devices = &self.log.processes[at].devices;
        let Some(known) = devices
            .iter()
            .position(|d| !d.sockets && d.number == number)
        else {
            return self.device(at, false, number, address);
        };
        let name = &devices[known].name;
        let is_in = memchr::memmem::find(name.as_bytes(), address).is_some();
        if !is_in {
            let joined = [name.as_bytes(), b"+", address].concat();
            if let Some(name) = self.names.keep(&joined) {
                self.log.processes[at].devices[known].name = name;
            }
        }
    }

    pub(super) fn hca(&mut self, at: usize, support: HcaSupport<'_>) {
        // Sockets are listed, too, and are no sign of anything.
        if support.network == b"Socket" {
            return self.device(at, true, support.device, support.name);
        }
        let hca = Hca {
            number: Some(support.device),
            name: self.names.keep(support.name),
            enabled: support.enabled,
            why: None,
        };
        self.keep_hca(at, hca);
    }

    pub(super) fn refused(&mut self, at: usize, refusal: Refusal<'_>) {
        let hca = Hca {
            number: refusal.device,
            name: refusal.name.and_then(|name| self.names.keep(name)),
            enabled: false,
            why: self.names.keep(refusal.why),
        };
        self.keep_hca(at, hca);
    }

    fn keep_hca(&mut self, at: usize, hca: Hca) {
        let known = &self.log.processes[at].hcas;
        if !known.contains(&hca) && self.has_room(known.len()) {
            self.log.processes[at].hcas.push(hca);
        }
    }

    pub(super) fn pair(&mut self, at: usize, support: GpuSupport<'_>) {
        let names = &mut self.names;
        let (Some(gpu), Some(device)) = (names.keep(support.gpu), names.keep(support.device))
        else {
            return;
        };
        let pair = GpuHca {
            gpu,
            device,
            enabled: support.enabled,
            distance: support.distance,
            limit: support.limit,
        };
        let known = &self.log.processes[at].pairs;
        if !known.contains(&pair) && self.has_room(known.len()) {
            self.log.processes[at].pairs.push(pair);
        }
    }

    pub(super) fn gpu(&mut self, at: usize, rank: u32, bus: u64) {
        let known = &self.log.processes[at].gpus;
        if !known.contains(&(rank, bus)) && self.has_room(known.len()) {
            self.log.processes[at].gpus.push((rank, bus));
        }
    }

    pub(super) fn setting(&mut self, name: &[u8], value: &[u8]) {
        let (Some(name), Some(value)) = (self.names.keep(name), self.names.keep(value)) else {
            return;
        };
        let setting = (name, value);
        if self.log.settings.contains(&setting) {
            return;
        }
        match self.log.settings.len() < MAX_FEW {
            true => self.log.settings.push(setting),
            false => self.log.left_out.facts += 1,
        }
    }

    pub(super) fn trouble(&mut self, spoken: &Spoken<'_>, trouble: Trouble<'_>) {
        let (register, text) = match trouble {
            Trouble::Completion(text) => (false, text),
            Trouble::Register(text) => (true, text),
        };
        let Some(text) = self.names.keep(text) else {
            return;
        };
        let host = self.log.processes[spoken.process].host.clone();
        let is_it = |t: &&mut TroubleSeen| t.host == host && t.register == register;
        if let Some(known) = self.log.troubles.iter_mut().find(is_it) {
            known.count += 1;
        } else if self.log.troubles.len() < MAX_FEW {
            let place = self.place(spoken.line);
            self.log.troubles.push(TroubleSeen {
                host,
                register,
                text,
                count: 1,
                place,
            });
        } else {
            self.log.left_out.facts += 1;
        }
    }

    pub(super) fn test(&mut self, rank: TestRank<'_>) {
        if rank.host.len() > 255 || self.tests.len() >= MAX_RANKS {
            self.log.left_out.facts += 1;
            return;
        }
        let key = (rank.host.into(), rank.process, rank.rank);
        self.tests.insert(key, rank.bus);
    }
}
