//! Proving who we are: keys of ssh-agent and key files. Never passwords.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use ssh2::{Agent, PublicKey, Session};

use super::Stop;
use super::connect::is_cut;
use super::identity::KeyFile;
use super::options::{Secret, SshOptions};
use crate::remote::Target;
use crate::remote::error::Failure;
use crate::remote::known_hosts::HostKey;
use crate::remote::text::clean;

/// Times a person may mistype a passphrase, as OpenSSH's NumberOfPasswordPrompts.
const PROMPTS: u32 = 3;

/// Passphrases by key file, shared by all nodes: each is asked for once. `None` marks a key that
/// stays locked.
#[derive(Default)]
pub(super) struct Keyring(Mutex<HashMap<PathBuf, Option<Secret>>>);

/// What came of offering one key.
enum Offer {
    Accepted,
    Refused,
    /// It could not be offered or used, and why.
    Unusable(String),
    WrongPassphrase,
}

/// Offers keys until one is accepted: key files in their order (through the agent where it holds
/// them), then the agent's other keys. A locked file is unlocked only when the server wants it.
pub(super) fn log_in(
    session: &Session,
    target: &Target,
    options: &SshOptions,
    keyring: &Keyring,
    stop: &Stop<'_>,
) -> Result<(), Failure> {
    stop.bound(session);
    let methods = match session.auth_methods(&target.user) {
        Ok(methods) => clean(methods.as_bytes()),
        Err(_) if session.authenticated() => return Ok(()),
        Err(e) => return Err(cut(e, target, "nothing yet".to_string(), stop)),
    };
    let mut login = Login {
        session,
        target,
        options,
        keyring,
        stop,
        tried: Vec::new(),
        offered: 0,
        wrong: None,
    };
    if methods.split(',').any(|method| method == "publickey") && login.offer_all()? {
        return Ok(());
    }
    Err(login.refused(methods))
}

struct Login<'a> {
    session: &'a Session,
    target: &'a Target,
    options: &'a SshOptions,
    keyring: &'a Keyring,
    stop: &'a Stop<'a>,
    tried: Vec<String>,
    offered: usize,
    wrong: Option<PathBuf>,
}

impl Login<'_> {
    fn offer_all(&mut self) -> Result<bool, Failure> {
        let agent = self.agent();
        let mut held: Vec<&PublicKey> = agent
            .as_ref()
            .map(|(_, keys)| keys.iter().collect())
            .unwrap_or_default();
        for path in &self.options.identity_files {
            let file = match KeyFile::read(path) {
                Ok(file) => file,
                Err(why) => {
                    self.tried.push(format!("file {} ({why})", path.display()));
                    continue;
                }
            };
            let twin = held
                .iter()
                .position(|k| HostKey::from_blob(k.blob()) == file.public);
            if let (Some(index), Some((agent, _))) = (twin, &agent)
                && self.offer_agent_key(agent, held.remove(index))?
            {
                return Ok(true);
            }
            if twin.is_none() && self.offer_file(&file)? {
                return Ok(true);
            }
        }
        if let Some((agent, _)) = &agent {
            for key in held {
                if self.offer_agent_key(agent, key)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The agent and its keys, where there is one.
    fn agent(&mut self) -> Option<(Agent, Vec<PublicKey>)> {
        if !self.options.use_agent {
            return None;
        }
        let list = || {
            let mut agent = self.session.agent()?;
            if let Some(socket) = &self.options.agent_socket {
                agent.set_identity_path(socket)?;
            }
            agent.connect()?;
            agent.list_identities()?;
            let keys = agent.identities()?;
            Ok::<_, ssh2::Error>((agent, keys))
        };
        match list() {
            Ok((agent, keys)) => {
                if keys.is_empty() {
                    self.tried.push("ssh-agent (it holds no key)".to_string());
                }
                Some((agent, keys))
            }
            Err(_) => {
                self.tried
                    .push("ssh-agent (none answers at SSH_AUTH_SOCK)".to_string());
                None
            }
        }
    }

    fn offer_agent_key(&mut self, agent: &Agent, key: &PublicKey) -> Result<bool, Failure> {
        let comment = clean(key.comment().as_bytes());
        let name = match HostKey::from_blob(key.blob()) {
            Some(public) => format!("agent key {comment} ({})", public.describe()),
            None => format!("agent key {comment}"),
        };
        self.stop.bound(self.session);
        let answer = agent.userauth(&self.target.user, key);
        let offer = self.read_answer(answer)?;
        Ok(self.note(name, offer))
    }

    fn offer_file(&mut self, file: &KeyFile) -> Result<bool, Failure> {
        let mut offer = self.sign(file, None)?;
        // With the public half alone a server says whether it wants the key: ask nobody for the
        // passphrase of one that it does not.
        if file.locked && !matches!(offer, Offer::Refused | Offer::Accepted) {
            offer = self.unlock(file)?;
        }
        if matches!(offer, Offer::WrongPassphrase) {
            self.wrong = Some(file.path.clone());
        }
        Ok(self.note(file.describe(), offer))
    }

    fn unlock(&mut self, file: &KeyFile) -> Result<Offer, Failure> {
        let locked = || Offer::Unusable("locked, and no passphrase was given".to_string());
        let ring = || {
            self.keyring
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        // Another node's login may be at the prompt for this key: that time is not ours.
        let mut ring = self.stop.watchdog.paused(ring);
        if let Some(remembered) = ring.get(&file.path).cloned() {
            drop(ring);
            return remembered.map_or(Ok(locked()), |secret| self.sign(file, Some(&secret)));
        }
        let mut offer = locked();
        let mut last = None;
        for _ in 0..PROMPTS {
            let ask = || (self.options.passphrase)(&file.path);
            let Some(secret) = self.stop.watchdog.paused(ask) else {
                break;
            };
            if last.as_ref() == Some(&secret) {
                break;
            }
            offer = self.sign(file, Some(&secret))?;
            if !matches!(offer, Offer::WrongPassphrase) {
                ring.insert(file.path.clone(), Some(secret));
                return Ok(offer);
            }
            last = Some(secret);
        }
        ring.insert(file.path.clone(), None);
        Ok(offer)
    }

    fn sign(&self, file: &KeyFile, secret: Option<&Secret>) -> Result<Offer, Failure> {
        self.stop.bound(self.session);
        let public = file.public.as_ref().map(HostKey::to_line);
        let answer = self.session.userauth_pubkey_memory(
            &self.target.user,
            public.as_deref(),
            &file.text,
            secret.map(Secret::reveal),
        );
        match self.read_answer(answer)? {
            // libssh2 calls a wrong passphrase an unsupported format.
            Offer::Unusable(_) if secret.is_some() => Ok(Offer::WrongPassphrase),
            other => Ok(other),
        }
    }

    /// Tells a refusal by the server from a failure of our own. LIBSSH2_ERROR_AUTHENTICATION_FAILED
    /// (-18) is the server's; LIBSSH2_ERROR_PUBLICKEY_UNVERIFIED (-19) may be anybody's, and only
    /// its text says whose (userauth.c).
    fn read_answer(&self, answer: Result<(), ssh2::Error>) -> Result<Offer, Failure> {
        let Err(e) = answer else {
            return Ok(Offer::Accepted);
        };
        let unverified = e.code() == ssh2::ErrorCode::Session(-19);
        let ours = unverified && e.message().starts_with("Callback");
        let lost = unverified && e.message().starts_with("Waiting");
        if is_cut(&e) || lost || self.stop.is_over(&e) {
            return Err(cut(e, self.target, self.tried.join("; "), self.stop));
        }
        if ours {
            return Ok(Offer::Unusable("it cannot sign".to_string()));
        }
        if unverified || e.code() == ssh2::ErrorCode::Session(-18) {
            return Ok(Offer::Refused);
        }
        Ok(Offer::Unusable(clean(e.message().as_bytes())))
    }

    /// Writes down what came of a key; true when it let us in.
    fn note(&mut self, name: String, offer: Offer) -> bool {
        match offer {
            Offer::Accepted => return true,
            Offer::Refused => {
                self.offered += 1;
                self.tried.push(name);
            }
            Offer::Unusable(why) => self.tried.push(format!("{name} ({why})")),
            Offer::WrongPassphrase => self.tried.push(format!("{name} (wrong passphrase)")),
        }
        false
    }

    fn refused(self, methods: String) -> Failure {
        let (user, address) = (self.target.user.clone(), self.stop.address.to_string());
        let tried = if self.tried.is_empty() {
            "nothing".into()
        } else {
            self.tried.join("; ")
        };
        match self.wrong {
            Some(file) => Failure::WrongPassphrase {
                file,
                user,
                address,
                tried,
            },
            None if self.offered == 0 && methods.contains("publickey") => Failure::NoKeys {
                user,
                address,
                tried,
            },
            None => Failure::KeysRefused {
                user,
                address,
                tried,
                methods,
            },
        }
    }
}

fn cut(source: ssh2::Error, target: &Target, tried: String, stop: &Stop<'_>) -> Failure {
    if stop.is_over(&source) {
        return stop.too_slow("authentication");
    }
    let (user, address) = (target.user.clone(), stop.address.to_string());
    Failure::CutWhileAuthenticating {
        user,
        address,
        tried,
        source,
    }
}
