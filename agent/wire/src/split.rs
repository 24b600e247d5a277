//! The requests of split Ed25519 keys: FROST (RFC 9591), with a key that the agents generate
//! together. `docs/split-keys.md` describes it.
//!
//! The client relays what an agent says to the others. What it relays of a generation is signed by
//! the agent, and the secret part is encrypted for one other agent. Nothing here has a nonce or a
//! share in clear.

use std::borrow::Cow;
use std::fmt;

use jeton_words::bounded::at_most;
use jeton_words::id::ObjectHandle;
use jeton_words::template::Template;
use serde::{Deserialize, Serialize};
use serde_bytes::Bytes;

/// The most agents of a split key.
pub const MAX_AGENTS: usize = 16;

/// The public key of an agent's identity, by which the rules of other agents name it.
pub type Identity = [u8; 32];

/// The name of a generation while it runs: random bytes of the client. An agent trusts it for
/// nothing.
pub type Name = [u8; 32];

/// A list with a part for each agent.
pub type List<'a> = Vec<&'a Bytes>;

/// A request in a session.
#[derive(Serialize, Deserialize)]
pub enum Ask<'a> {
    /// Asks for the identity of the agent. It makes one if its token has none.
    Identity,
    /// The first round of a generation.
    Begin {
        /// The name of the generation.
        name: Name,
        /// How many agents a signature needs.
        threshold: u8,
        /// All agents in their order.
        #[serde(deserialize_with = "at_most::<MAX_AGENTS, _, _>")]
        agents: Vec<Identity>,
    },
    /// The second round.
    Deal {
        /// The name of the generation.
        name: Name,
        /// What each agent answered in the first round, in the order of the agents.
        #[serde(borrow, deserialize_with = "at_most::<MAX_AGENTS, _, _>")]
        opened: List<'a>,
    },
    /// The third round, which makes the share and the public key as objects.
    Keep {
        /// The name of the generation.
        name: Name,
        /// What each agent dealt to this one, in the order of the agents. Its own part is empty.
        #[serde(borrow, deserialize_with = "at_most::<MAX_AGENTS, _, _>")]
        dealt: List<'a>,
        /// The template of the public key.
        #[serde(borrow)]
        public: Cow<'a, Template<'a>>,
        /// The template of the share.
        #[serde(borrow)]
        private: Cow<'a, Template<'a>>,
    },
    /// Asks what is public of a share.
    Share(ObjectHandle),
    /// The first round of a signature: a commitment to new nonces.
    Commit(ObjectHandle),
    /// The second round of a signature.
    Sign {
        /// The share.
        share: ObjectHandle,
        /// The message. There is no other form of it: the agent encodes and hashes by itself.
        #[serde(borrow)]
        message: &'a Bytes,
        /// The numbers of the agents that sign, and the commitment of each.
        #[serde(borrow, deserialize_with = "at_most::<MAX_AGENTS, _, _>")]
        commitments: Vec<(u8, &'a Bytes)>,
    },
}

/// The answer to an [`Ask`].
#[derive(Serialize, Deserialize)]
pub enum Told<'a> {
    /// To [`Ask::Identity`].
    Identity(Identity),
    /// To [`Ask::Begin`]: what the other agents get.
    Opened(#[serde(borrow)] &'a Bytes),
    /// To [`Ask::Deal`]: what each other agent gets. The agent's own part is empty.
    Dealt(#[serde(borrow, deserialize_with = "at_most::<MAX_AGENTS, _, _>")] List<'a>),
    /// To [`Ask::Keep`].
    Kept {
        /// The share.
        share: ObjectHandle,
        /// The public key as an object.
        public: ObjectHandle,
        /// The public key.
        point: [u8; 32],
        /// The digest of what all agents said in the first round.
        transcript: [u8; 32],
    },
    /// To [`Ask::Share`].
    Share {
        /// The number of the agent, from 1.
        number: u8,
        /// The public shares of all agents, in the encoding of `frost-core`.
        #[serde(borrow)]
        public: &'a Bytes,
    },
    /// To [`Ask::Commit`], in the encoding of `frost-core`.
    Commitment(#[serde(borrow)] &'a Bytes),
    /// To [`Ask::Sign`]: the share of the signature.
    Signed(#[serde(borrow)] &'a Bytes),
}

impl fmt::Debug for Ask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ask")
    }
}

impl fmt::Debug for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Told")
    }
}
