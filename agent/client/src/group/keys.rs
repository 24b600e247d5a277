//! The keys of a group: which object of which agent is a share of which key.

use jeton_words::id::ObjectHandle;

/// The keys that the application has seen. Their places never change, because handles have them.
#[derive(Default)]
pub struct Keys(Vec<Key>);

/// A key.
#[derive(Clone)]
pub struct Key {
    /// `CKA_PUBLIC_KEY_INFO`.
    pub info: Vec<u8>,
    /// What is public of the shares, in the encoding of `frost-core`.
    pub public: Vec<u8>,
    /// The objects of each agent.
    pub parts: Vec<Option<Part>>,
}

/// The objects of an agent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The number of the agent among those of the key.
    pub number: u8,
    pub share: ObjectHandle,
    pub public: ObjectHandle,
}

/// An object of the application: the private or the public key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Half {
    Private,
    Public,
}

impl Part {
    pub fn of(self, half: Half) -> ObjectHandle {
        match half {
            Half::Private => self.share,
            Half::Public => self.public,
        }
    }
}

/// Returns the handle of an object of the key at this place.
pub fn handle(at: usize, half: Half) -> ObjectHandle {
    ObjectHandle(2 * at as u64 + if half == Half::Private { 1 } else { 2 })
}

/// Returns the place of the key of a handle.
pub fn place(handle: ObjectHandle) -> Option<(usize, Half)> {
    let number = handle.0.checked_sub(1)?;
    Some(((number / 2) as usize, if number % 2 == 0 { Half::Private } else { Half::Public }))
}

impl Keys {
    pub fn get(&self, at: usize) -> Option<&Key> {
        self.0.get(at).filter(|key| key.parts.iter().any(Option::is_some))
    }

    pub fn get_mut(&mut self, at: usize) -> Option<&mut Key> {
        self.0.get_mut(at)
    }

    pub fn iter(&self) -> impl Iterator<Item = (usize, &Key)> {
        self.0.iter().enumerate()
    }

    /// Notes a key, or more parts of one that is known.
    pub fn put(&mut self, key: Key) {
        match self.0.iter_mut().find(|known| known.info == key.info && known.public == key.public) {
            // An agent that is away now keeps its part.
            Some(known) => {
                let parts = known.parts.iter_mut().zip(key.parts);
                parts.for_each(|(known, part)| *known = part.or(*known));
            }
            None => self.0.push(key),
        }
    }
}
