//! Objects of a group: each split key has a private key and a public key. To the application the
//! share of an agent is the private key.

use jeton_agent_wire::Malformed;
use jeton_agent_wire::split::{Ask, Told};
use jeton_words::attribute::{AttributeView, Shown, ULONG};
use jeton_words::error::{Error, Result};
use jeton_words::id::{AttributeType as A, KeyType, ObjectClass, ObjectHandle, SessionHandle};
use jeton_words::template::{Given, Raw, Template};
use jeton_words::token::{Attributes, Room, Token};

use super::keys::{Half, Key, Part, handle, place};
use super::member::{Member, lock};
use super::sessions::{Group, Open};
use crate::attribute_numbers;

/// The most shares that one agent shows.
const MOST: usize = 1024;
/// The longest list of public shares.
const LONGEST_PUBLIC: usize = 4096;
/// The longest value that this module itself reads.
const LONGEST: u64 = 256;

/// A number as the application has it.
pub(super) fn native(number: u64) -> Vec<u8> {
    attribute_numbers::number::<ULONG>(number).to_vec()
}

impl Group {
    pub fn find_init(&self, session: SessionHandle, template: &Template<'_>) -> Result<()> {
        let open = self.find_open(session)?;
        let mut open = lock(&open);
        if open.found.is_some() {
            return Err(Error::OperationActive);
        }
        self.look(&mut open)?;
        let key_type = template.bytes(A::KEY_TYPE);
        let is_ours = key_type.is_none_or(|given| given == native(KeyType::EC_EDWARDS.0));
        let rest = Template(template.0.iter().filter(|given| given.id != A::KEY_TYPE).cloned().collect());
        let found = self.at_one(&mut open, |at, member, session| {
            let found = search(member, session, &rest)?;
            let keys = lock(&self.keys);
            let mut handles = Vec::new();
            for (place, key) in keys.iter() {
                let (Some(part), true) = (key.parts[at], self.is_shown(key)) else { continue };
                let halves = [Half::Private, Half::Public].into_iter();
                let halves = halves.filter(|half| found.contains(&part.of(*half)));
                handles.extend(halves.map(|half| handle(place, half)));
            }
            Ok(handles)
        })?;
        open.found = Some(if is_ours { found.into() } else { Default::default() });
        Ok(())
    }

    pub fn find(&self, session: SessionHandle, out: &mut [ObjectHandle]) -> Result<usize> {
        let open = self.find_open(session)?;
        let mut open = lock(&open);
        let found = open.found.as_mut().ok_or(Error::OperationNotInitialized)?;
        let count = found.len().min(out.len());
        out[..count].iter_mut().zip(found.drain(..count)).for_each(|(out, handle)| *out = handle);
        Ok(count)
    }

    pub fn find_final(&self, session: SessionHandle) -> Result<()> {
        let open = self.find_open(session)?;
        let found = lock(&open).found.take();
        found.map(drop).ok_or(Error::OperationNotInitialized)
    }

    /// Returns whether enough agents show a key: one alone may show any.
    fn is_shown(&self, key: &Key) -> bool {
        key.parts.iter().flatten().count() >= usize::from(self.threshold)
    }

    /// Looks at the keys of all agents that answer.
    pub(super) fn look(&self, open: &mut Open) -> Result<()> {
        for at in 0..self.members.len() {
            let Ok(session) = self.session_at(open, at) else { continue };
            match self.look_at(at, session) {
                Ok(seen) => seen.into_iter().for_each(|key| lock(&self.keys).put(key)),
                Err(error) => self.lose(open, at, error),
            }
        }
        Ok(())
    }

    /// Returns the keys of an agent.
    fn look_at(&self, at: usize, session: SessionHandle) -> Result<Vec<Key>> {
        let member = &self.members[at];
        let (class, share) = (native(ObjectClass::PRIVATE_KEY.0), native(KeyType::JETON_SHARE.0));
        let wanted =
            Template(vec![given(A::CLASS, &class), given(A::KEY_TYPE, &share), given(A::SIGN, &[1])]);
        let mut seen = Vec::new();
        for share in search(member, session, &wanted)? {
            let Ok(info) = read(member, session, share, A::PUBLIC_KEY_INFO) else { continue };
            let class = native(ObjectClass::PUBLIC_KEY.0);
            let wanted = Template(vec![given(A::CLASS, &class), given(A::PUBLIC_KEY_INFO, &info)]);
            let public = search(member, session, &wanted)?.first().copied().unwrap_or(ObjectHandle(0));
            let told = member.ask(session, Ask::Share(share), self.end(), |told| match told {
                Told::Share { number, public } if public.len() <= LONGEST_PUBLIC => {
                    Ok((number, public.to_vec()))
                }
                _ => Err(Malformed),
            });
            // It may be one that this session may not use.
            let Ok((number, shares)) = told else { continue };
            let mut parts = vec![None; self.members.len()];
            parts[at] = Some(Part { number, share, public });
            seen.push(Key { info, public: shares, parts });
        }
        Ok(seen)
    }

    /// Returns the key of a handle, and which half it is.
    pub(super) fn key(&self, object: ObjectHandle) -> Result<(usize, Half, Key)> {
        let (at, half) = place(object).ok_or(Error::ObjectHandleInvalid)?;
        let keys = lock(&self.keys);
        let key = keys.get(at).ok_or(Error::ObjectHandleInvalid)?;
        Ok((at, half, key.clone()))
    }

    pub fn attributes(
        &self,
        session: SessionHandle,
        object: ObjectHandle,
        asked: &mut impl Attributes,
    ) -> Result<()> {
        let open = self.find_open(session)?;
        let (_, half, key) = self.key(object)?;
        self.at_one(&mut lock(&open), |at, member, session| {
            let part = key.parts[at].ok_or(Error::DeviceError)?;
            member.remote.attributes(session, part.of(half), &mut AsPrivateKey(asked))
        })
    }

    pub fn object_size(&self, session: SessionHandle, object: ObjectHandle) -> Result<u64> {
        let open = self.find_open(session)?;
        let (_, half, key) = self.key(object)?;
        self.at_one(&mut lock(&open), |at, member, session| {
            let part = key.parts[at].ok_or(Error::DeviceError)?;
            member.remote.object_size(session, part.of(half))
        })
    }

    /// Changes an object at each agent. Fails if one of them is away: the others would differ.
    pub fn set_attributes(
        &self,
        session: SessionHandle,
        object: ObjectHandle,
        template: &Template<'_>,
    ) -> Result<()> {
        self.change(session, object, |member, session, part| {
            member.remote.set_attributes(session, part, template)
        })
    }

    /// Destroys an object at each agent that has it.
    pub fn destroy_object(&self, session: SessionHandle, object: ObjectHandle) -> Result<()> {
        let (at, half, _) = self.key(object)?;
        self.change(session, object, |member, session, part| member.remote.destroy_object(session, part))?;
        if half == Half::Private
            && let Some(key) = lock(&self.keys).get_mut(at)
        {
            key.parts.fill(None);
        }
        Ok(())
    }

    fn change(
        &self,
        session: SessionHandle,
        object: ObjectHandle,
        work: impl Fn(&Member, SessionHandle, ObjectHandle) -> Result<()>,
    ) -> Result<()> {
        let open = self.find_open(session)?;
        let mut open = lock(&open);
        self.look(&mut open)?;
        let (_, half, key) = self.key(object)?;
        let mut sessions = Vec::new();
        for (at, part) in key.parts.iter().enumerate() {
            if let Some(part) = part {
                sessions.push((at, self.session_at(&mut open, at)?, part.of(half)));
            }
        }
        sessions.into_iter().try_for_each(|(at, session, part)| work(&self.members[at], session, part))
    }
}

fn given(id: A, value: &[u8]) -> Given<'_> {
    Given { id, value: Raw::Bytes(value) }
}

/// Returns the objects of an agent that fit.
fn search(member: &Member, session: SessionHandle, wanted: &Template<'_>) -> Result<Vec<ObjectHandle>> {
    member.remote.find_init(session, wanted)?;
    let mut found = vec![ObjectHandle(0); MOST];
    let count = member.remote.find(session, &mut found);
    let ended = member.remote.find_final(session);
    found.truncate(count?);
    ended?;
    Ok(found)
}

/// Reads an attribute of an object of an agent.
fn read(member: &Member, session: SessionHandle, object: ObjectHandle, id: A) -> Result<Vec<u8>> {
    let mut one = One(id, Err(Error::DeviceError));
    member.remote.attributes(session, object, &mut one)?;
    one.1
}

struct One(A, Result<Vec<u8>>);

impl Attributes for One {
    fn count(&self) -> usize {
        1
    }

    fn asked(&self, _: usize) -> (A, Room) {
        (self.0, Room::Bytes(LONGEST))
    }

    fn tell(&mut self, _: usize, value: Result<AttributeView<'_>>) {
        self.1 = value.and_then(|value| match value {
            AttributeView::Bytes(bytes) => Ok(bytes.into_owned()),
            _ => Err(Error::DeviceError),
        });
    }

    fn outcome(&self) -> Result<()> {
        self.1.as_ref().map(|_| ()).map_err(|error| *error)
    }
}

/// Shows a share as a private key on a curve.
struct AsPrivateKey<'a, T>(&'a mut T);

impl<T: Attributes> Attributes for AsPrivateKey<'_, T> {
    fn count(&self) -> usize {
        self.0.count()
    }

    fn asked(&self, index: usize) -> (A, Room) {
        self.0.asked(index)
    }

    fn tell(&mut self, index: usize, value: Result<AttributeView<'_>>) {
        let share = native(KeyType::JETON_SHARE.0);
        let is_share = matches!(&value, Ok(AttributeView::Bytes(bytes)) if bytes[..] == share);
        let edwards = native(KeyType::EC_EDWARDS.0);
        match self.asked(index).0 {
            A::KEY_TYPE if is_share => self.0.tell(index, Ok(AttributeView::Bytes(Shown::Held(&edwards)))),
            _ => self.0.tell(index, value),
        }
    }

    fn outcome(&self) -> Result<()> {
        self.0.outcome()
    }
}
