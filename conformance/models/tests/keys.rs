//! An explorer of the calls that derive, digest, wrap and unwrap, in the tradition of Delaune,
//! Kremer and Steel ("Formal analysis of PKCS#11", 2008) and of Tookan (Bortolozzo, Centenaro,
//! Focardi, Steel, 2010). A key is a sequence of symbolic bytes. The explorer makes every key that
//! [`DEPTH`] calls can make, over the rows of the real table and by the real rules, and asks what
//! the attacker knows. With [`Rules::Old`], the rules of commit eb67fe51, it has to find the
//! attacks of the second review. Otherwise its silence would prove nothing.
//!
//! The attacker imports keys, sees the value of readable keys, and compares one-way results: equal
//! results show equal inputs. He guesses up to [`GUESSED`] bytes. Calls never disable other calls,
//! so the explorer needs no order: it counts the distinct calls behind each key.
//!
//! Simplifications, all in favour of the attacker: each mechanism accepts each key type, and a key
//! has every usage that the rules permit. A one-way result of a one-way result is not explored: it
//! is a fresh key, like the victim itself.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Instant;

use jeton::backend::Hash;
use jeton::id::{AttributeType, ObjectHandle};
use jeton::mechanism::flow::{
    Extent, Flow, Inputs, Integrity, KeyFlow, Nonce, Output, Protection, Secrecy, Sizes,
};
use jeton::mechanism::rule::{self, Demand, KeyState, Makeup, Policy, Template, WrappingKey};
use jeton::mechanism::sp800_108::Field;
use jeton::mechanism::tls::{Randoms, TlsPrf};
use jeton::mechanism::{self, Derivation, HkdfSalt, MacFunction, MechanismRow, Params, Shape};

/// The number of calls that make keys.
const DEPTH: usize = 4;
/// The same for the old rules, which need fewer.
const OLD_DEPTH: usize = 3;
/// The longest key in bytes that the explorer makes: two victims.
const LONGEST: usize = 2 * LEN;
/// The number of unknown bytes that the attacker guesses.
const GUESSED: usize = 2;
/// The length to which HMAC pads its key with zeros.
const PADDED: usize = 64;
/// The length of the victim, and of a one-way result.
const LEN: usize = 32;

/// Which rules decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rules {
    /// Those of the token.
    Real,
    /// Those of commit eb67fe51.
    Old,
}

/// A secret byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Atom {
    /// A byte of the victim.
    Victim(u8),
    /// A byte of a one-way result.
    Result(u32, u8),
}

/// A byte of a key: a secret byte, XORed with a constant that the attacker chose, and with the byte
/// that he varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Byte {
    atom: Option<Atom>,
    constant: u8,
    varied: bool,
}

impl Byte {
    const ZERO: Self = Self { atom: None, constant: 0, varied: false };
    const VARIED: Self = Self { atom: None, constant: 0, varied: true };

    fn of(atom: Atom) -> Self {
        Self { atom: Some(atom), ..Self::ZERO }
    }

    fn xor(self, other: Self) -> Self {
        Self {
            atom: self.atom.or(other.atom),
            constant: self.constant ^ other.constant,
            varied: self.varied != other.varied,
        }
    }
}

/// A key, and the calls that made it.
#[derive(Clone)]
struct Key {
    value: Vec<Byte>,
    state: KeyState,
    calls: Vec<u32>,
}

impl Key {
    fn is_known(&self) -> bool {
        self.value.iter().all(|byte| byte.atom.is_none())
    }
}

/// A one-way image of bytes that the attacker can compare with another of the same kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kind {
    /// A digest or a MAC of exactly these bytes.
    Message,
    /// A MAC under these bytes, padded with zeros.
    MacKey,
    /// The XOR of two MACs, each under a half of these bytes.
    Halves,
}

/// A way to call a derivation: a row with a parameter.
struct Call {
    derivation: Derivation,
    inputs: Box<dyn Fn(Sizes) -> Inputs>,
    names_key: bool,
    /// Whether the derived key can contain bytes of its keys.
    copies: bool,
    /// Data before and after the key, or the mask.
    data: Data,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Data {
    None,
    /// One byte, which the attacker varies.
    Varied,
    /// Zeros as long as the base key.
    Zeros,
    /// Zeros, and at the end the varied byte: a mask of the last byte.
    Last,
    /// Zeros for all bytes but the last.
    Short,
    /// The first bit of an extraction.
    Bit(u64),
}

/// Returns the calls of the table that differ. Rows that flow alike at all sizes are one call.
fn calls() -> Vec<Call> {
    let mut known = HashSet::new();
    let mut all = Vec::new();
    for row in mechanism::all().filter(|row| matches!(row.flow, KeyFlow::Derives(_))) {
        for (params, data) in parameters(row) {
            let mechanism::Action::Derive(derivation) = row.action else { panic!("a derivation") };
            if matches!(derivation, Derivation::PublicKey) {
                continue;
            }
            let inputs = move |sizes: Sizes| {
                let params = match data {
                    Data::Zeros | Data::Last => Params::Data(vec![0; sizes.base].into()),
                    Data::Short => Params::Data(vec![0; sizes.base.saturating_sub(1)].into()),
                    _ => params.clone(),
                };
                row.inputs(&params, sizes).expect("a derivation")
            };
            let probe = |base| {
                let sizes = [None, Some(16), Some(base - 1), Some(base)];
                sizes.map(|wanted| inputs(Sizes { base, total: base + 1, wanted }))
            };
            let names_key = names_key(row, data);
            let shape = match derivation {
                Derivation::ConcatenateBaseAndKey
                | Derivation::ConcatenateBaseAndData
                | Derivation::ConcatenateDataAndBase
                | Derivation::XorBaseAndData
                | Derivation::ExtractKeyFromKey => format!("{derivation:?}"),
                _ => String::new(),
            };
            let copies = !shape.is_empty() || derivation == Derivation::Ike1Extended;
            let form = (shape, [16, LEN, LEN + 1].map(probe), names_key, data);
            if known.insert(form) {
                all.push(Call { derivation, inputs: Box::new(inputs), names_key, copies, data });
            }
        }
    }
    all
}

fn names_key(row: &MechanismRow, data: Data) -> bool {
    matches!(row.shape, Shape::Key)
        || data == Data::Varied && !matches!(row.shape, Shape::Data | Shape::CbcData)
}

/// Returns parameters of a row that show each of its classes. With [`Data::Varied`] the parameter
/// names a key.
fn parameters(row: &MechanismRow) -> Vec<(Params, Data)> {
    let (key, bytes) = (ObjectHandle(1), || Box::<[u8]>::from([0]));
    let randoms = || Randoms { client: bytes(), server: bytes() };
    let prfs = [MacFunction::Hmac(Hash::Sha256), MacFunction::Hmac(Hash::Sha1), MacFunction::AesCmac];
    let tls = [TlsPrf::Md5Sha1, TlsPrf::Hash(Hash::Sha256)];
    let plain = |params| vec![(params, Data::None)];
    match row.shape {
        Shape::None => plain(Params::None),
        Shape::Ecdh | Shape::Integer | Shape::CbcData => plain(Params::None),
        Shape::Key => vec![(Params::Key(key), Data::Varied)],
        Shape::Data if row.action == mechanism::Action::Derive(Derivation::XorBaseAndData) => {
            [Data::Zeros, Data::Last, Data::Short].map(|data| (Params::Data(bytes()), data)).into()
        }
        Shape::Data => vec![(Params::Data(bytes()), Data::Varied)],
        Shape::Bit => [0, 8].map(|bit| (Params::Bit(bit), Data::Bit(bit))).into(),
        Shape::Hkdf => [(true, true), (true, false), (false, true)]
            .into_iter()
            .flat_map(|(extract, expand)| {
                [(HkdfSalt::Null, Data::None), (HkdfSalt::Key(key), Data::Varied)].map(|(salt, data)| {
                    (Params::Hkdf { extract, expand, hash: Hash::Sha256, salt, info: bytes() }, data)
                })
            })
            .collect(),
        Shape::Sp800_108(_) => prfs
            .into_iter()
            .flat_map(|prf| {
                let of = |fields| Params::Sp800_108 { prf, fields, iv: Box::default() };
                [
                    (of(vec![Field::Iteration(None)]), Data::None),
                    (of(vec![Field::Bytes(bytes()), Field::Key(key)]), Data::Varied),
                ]
            })
            .collect(),
        Shape::TlsMaster | Shape::Tls12Master => {
            tls.map(|prf| (Params::TlsMaster { prf, randoms: randoms() }, Data::None)).into()
        }
        Shape::Tls12ExtendedMaster => {
            tls.map(|prf| (Params::TlsExtendedMaster { prf, session_hash: bytes() }, Data::None)).into()
        }
        Shape::TlsKeys | Shape::Tls12Keys | Shape::Tls12SafeKeys => tls
            .map(|prf| {
                (Params::TlsKeys { prf, randoms: randoms(), mac_len: 20, key_len: 16, iv_len: 0 }, Data::None)
            })
            .into(),
        Shape::TlsKdf => tls
            .map(|prf| {
                (Params::TlsKdf { prf, label: bytes(), randoms: randoms(), context: None }, Data::None)
            })
            .into(),
        Shape::TlsPrf => plain(Params::TlsPrf { seed: bytes(), label: bytes(), len: 16 }),
        Shape::IkePrf => prfs
            .into_iter()
            .flat_map(|prf| {
                let of = |data_as_key, new_key| Params::IkePrf { prf, data_as_key, nonces: bytes(), new_key };
                [
                    (of(true, None), Data::None),
                    (of(false, None), Data::None),
                    (of(false, Some(key)), Data::Varied),
                ]
            })
            .collect(),
        Shape::Ike1Prf => prfs
            .map(|prf| {
                (
                    Params::Ike1Prf { prf, shared: key, previous: None, cookies: bytes(), number: 0 },
                    Data::Varied,
                )
            })
            .into(),
        Shape::Ike1Extended => prfs
            .into_iter()
            .flat_map(|prf| {
                let of = |shared| Params::Ike1Extended { prf, shared, extra: Box::default() };
                [(of(None), Data::None), (of(Some(key)), Data::Varied)]
            })
            .collect(),
        Shape::Ike2PrfPlus => prfs
            .into_iter()
            .flat_map(|prf| {
                let of = |seed_key| Params::Ike2PrfPlus { prf, seed_key, seed: bytes() };
                [(of(None), Data::None), (of(Some(key)), Data::Varied)]
            })
            .collect(),
        shape => panic!("no parameters for {shape:?}"),
    }
}

/// The attacks that the explorer can find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Attack {
    /// A comparison of results shows a few bytes of the victim: H3.
    Compared,
    /// A comparison shows a few bytes of a key that is derived from the victim and hidden.
    ComparedResults,
    /// A readable result is inverted: H2.
    Inverted,
    /// A result leaves under the attacker's wrapping key and is inverted: M1.
    Laundered,
    /// The attacker reads what is derived from a key whose template hides it, by C_DigestKey: M2.
    Digested,
    /// The same, by a derivation: M3.
    Derived,
    /// The attacker reads bytes of the victim.
    Read,
}

/// The explorer for one victim.
struct Explorer {
    rules: Rules,
    policy: Policy,
    calls: Vec<Call>,
    keys: Vec<Key>,
    depth: usize,
    seen: HashMap<Vec<Byte>, Vec<(KeyState, Vec<u32>)>>,
    terms: HashMap<(Extent, bool), u32>,
    /// The numbers of the calls.
    made: HashMap<(usize, usize, usize, usize), u32>,
    /// The results that the attacker can invert.
    invertible: HashSet<u32>,
    images: BTreeMap<(Kind, Vec<Byte>), Vec<Vec<u32>>>,
    found: BTreeMap<Attack, String>,
    wanted: Vec<(usize, usize, Option<usize>, Option<usize>)>,
    tried: usize,
}

/// The victims.
fn victims() -> [(&'static str, KeyState); 3] {
    let kept = KeyState {
        sensitive: true,
        extractable: false,
        with_trusted: false,
        makeup: Makeup::Whole,
        template: Template::Open,
    };
    [
        ("never extractable", kept),
        ("CKA_WRAP_WITH_TRUSTED", KeyState { extractable: true, with_trusted: true, ..kept }),
        ("CKA_DERIVE_TEMPLATE", KeyState { template: Template::Protects, ..kept }),
    ]
}

const OPEN: KeyState = KeyState {
    sensitive: false,
    extractable: true,
    with_trusted: false,
    makeup: Makeup::Whole,
    template: Template::Open,
};

impl Explorer {
    fn new(rules: Rules, policy: Policy, victim: KeyState) -> Self {
        let value = (0..LEN as u8).map(|at| Byte::of(Atom::Victim(at))).collect();
        let known = |value: Vec<Byte>| Key { value, state: OPEN, calls: Vec::new() };
        let mut explorer = Self {
            rules,
            policy,
            calls: calls(),
            keys: Vec::new(),
            depth: if rules == Rules::Old { OLD_DEPTH } else { DEPTH },
            seen: HashMap::new(),
            terms: HashMap::new(),
            made: HashMap::new(),
            invertible: HashSet::new(),
            images: BTreeMap::new(),
            found: BTreeMap::new(),
            wanted: Vec::new(),
            tried: 0,
        };
        explorer.add(Key { value, state: victim, calls: Vec::new() });
        explorer.add(known(vec![Byte::ZERO; 16]));
        explorer
    }

    /// Adds a key, unless some of the same calls make the same key with fewer limits, or each key
    /// takes a single call. Then one of the two calls can replace the other everywhere.
    fn add(&mut self, key: Key) {
        let known = self.seen.entry(key.value.clone()).or_default();
        let covers = |(state, calls): &(KeyState, Vec<u32>)| {
            (calls.len() == 1 && key.calls.len() == 1 || calls.iter().all(|call| key.calls.contains(call)))
                && state.makeup <= key.state.makeup
                && KeyState { makeup: key.state.makeup, ..*state } == key.state
        };
        if key.value.len() > LONGEST || known.iter().any(covers) {
            return;
        }
        known.push((key.state, key.calls.clone()));
        self.keys.push(key);
    }

    fn run(mut self) -> Self {
        let mut done = 0;
        for _ in 0..self.depth {
            let (start, end) = (done, self.keys.len());
            done = end;
            for base in 0..end {
                for named in 0..end {
                    // One of the two keys is new, or the call needs only one key.
                    let fresh = base >= start || named >= start;
                    if named == 0 && base >= start {
                        self.wrap_and_unwrap(base);
                    }
                    if fresh {
                        self.call_all(base, named);
                    }
                }
            }
        }
        self.observe();
        self.compare();
        self
    }

    /// Wraps a key under a trusted key and unwraps it, if the owner allows both. The new key has no
    /// mark. The unwrapping key makes it unreadable.
    fn wrap_and_unwrap(&mut self, base: usize) {
        let key = self.keys[base].clone();
        let may = match self.rules {
            Rules::Real => rule::wrap(Secrecy::Whole, WrappingKey::Dedicated, &key.state).is_ok(),
            Rules::Old => true,
        };
        if !may || !key.state.extractable || key.is_known() || key.calls.len() >= self.depth {
            return;
        }
        let state = KeyState {
            sensitive: true,
            extractable: false,
            with_trusted: false,
            makeup: Makeup::Whole,
            template: Template::Open,
        };
        let number = self.made.len() as u32;
        let number = *self.made.entry((usize::MAX, base, 0, 0)).or_insert(number);
        let calls = key.calls.iter().copied().chain([number]).collect::<BTreeSet<_>>().into_iter().collect();
        self.add(Key { state, calls, ..key });
    }

    fn call_all(&mut self, base: usize, named: usize) {
        let (a, b) = (&self.keys[base], &self.keys[named]);
        let one = a.calls.len();
        let both = one + b.calls.iter().filter(|call| !a.calls.contains(call)).count();
        // Only a concatenation takes two keys that neither are known nor the victim.
        if named > 1 && base > 1 && (both >= self.depth || a.value.len() + b.value.len() > LONGEST) {
            return;
        }
        // A result of the victim is a fresh key. A result of any other key adds nothing to it,
        // except the images that `observe` compares.
        let is_victim = |at: usize| self.keys[at].value == self.keys[0].value;
        let is_fresh = |at: usize| is_victim(at) || self.keys[at].is_known();
        let known = [base, named].map(|at| self.keys[at].is_known());
        let len = self.keys[base].value.len();
        let lens = BTreeSet::from([None, Some(16), Some(20), Some(len.saturating_sub(1)), Some(len)]);
        for at in 0..self.calls.len() {
            let two = self.calls[at].names_key;
            let before = if two { both } else { one };
            let useless = if two { known[0] && known[1] } else { named != 0 || known[0] };
            let results = !self.calls[at].copies && !(is_fresh(base) && (!two || is_fresh(named)));
            if before + 1 > self.depth || useless || results {
                continue;
            }
            let calls = lens.iter().map(|wanted| (at, base, two.then_some(named), *wanted));
            self.wanted.extend(calls);
        }
        for (at, base, named, wanted) in std::mem::take(&mut self.wanted) {
            self.call(at, base, named, wanted);
        }
    }

    fn call(&mut self, at: usize, base: usize, named: Option<usize>, wanted: Option<usize>) {
        let call = &self.calls[at];
        let keys: Vec<_> = [base].into_iter().chain(named).map(|at| self.keys[at].clone()).collect();
        let data = usize::from(call.data == Data::Varied && named.is_none());
        let sizes = Sizes {
            base: keys[0].value.len(),
            total: keys.iter().map(|key| key.value.len()).sum::<usize>() + data,
            wanted,
        };
        if sizes.base == 0 || wanted == Some(0) {
            return;
        }
        let inputs = (call.inputs)(sizes);
        let states: Vec<_> = keys.iter().map(|key| key.state).collect();
        self.tried += 1;
        let Some(demand) = self.decide(&inputs, &states, sizes) else { return };
        let (value, natural) = self.compute(at, &inputs, &keys, wanted);
        let Some(value) = value else { return };
        let number = self.made.len() as u32;
        let by = (at, base, named.unwrap_or(usize::MAX), wanted.unwrap_or(usize::MAX));
        let number = *self.made.entry(by).or_insert(number);
        let mut all: BTreeSet<u32> = keys.iter().flat_map(|key| key.calls.iter().copied()).collect();
        all.insert(number);
        if all.len() > self.depth {
            return;
        }
        let calls = all.into_iter().collect();
        let state = self.state(&inputs, &states, &demand, natural, value.len());
        let key = Key { value, state, calls };
        if inputs.output == Output::Visible {
            self.learn(&key, Attack::Derived);
            return;
        }
        // The attacker imports every key that he can read.
        if !key.state.is_unreadable() {
            return self.learn(&key, Attack::Derived);
        }
        if key.value.len() >= rule::SHORTEST {
            self.add(key);
        }
    }

    /// Asks the rules.
    fn decide(&self, inputs: &Inputs, keys: &[KeyState], sizes: Sizes) -> Option<Demand> {
        match self.rules {
            Rules::Real => rule::derive(inputs, keys, self.policy).ok(),
            Rules::Old => old(inputs, keys, self.policy, sizes),
        }
    }

    /// Returns the most open state that the rules and the templates allow for a derived key.
    fn state(
        &self,
        inputs: &Inputs,
        keys: &[KeyState],
        demand: &Demand,
        natural: usize,
        len: usize,
    ) -> KeyState {
        let applied = if self.rules == Rules::Old { &keys[..1] } else { keys };
        let forced = applied.iter().any(|key| key.template == Template::Protects);
        let state = KeyState {
            sensitive: demand.sensitive || forced,
            extractable: !(demand.unextractable || forced),
            with_trusted: demand.with_trusted,
            makeup: Makeup::Whole,
            template: if inputs.copies() && forced { Template::Protects } else { Template::Open },
        };
        let hidden = keys.iter().any(KeyState::is_unreadable) && state.is_unreadable();
        let makeup = match hidden {
            true if inputs.copies() || self.rules == Rules::Old => demand.makeup,
            true => rule::made(inputs.extent, natural, len),
            false => Makeup::Whole,
        };
        KeyState { makeup, ..state }
    }

    /// Computes the derived key, `None` if it is impossible or of no use. Also returns the length
    /// of the whole result. Records the one-way images that the attacker can compare.
    fn compute(
        &mut self,
        at: usize,
        inputs: &Inputs,
        keys: &[Key],
        wanted: Option<usize>,
    ) -> (Option<Vec<Byte>>, usize) {
        let (derivation, data) = (self.calls[at].derivation, self.calls[at].data);
        let base = &keys[0].value;
        let mut whole = match derivation {
            Derivation::ConcatenateBaseAndKey => [&base[..], &keys[1].value].concat(),
            Derivation::ConcatenateBaseAndData => [&base[..], &[Byte::VARIED]].concat(),
            Derivation::ConcatenateDataAndBase => [&[Byte::VARIED], &base[..]].concat(),
            Derivation::XorBaseAndData => {
                let len = if data == Data::Short { base.len() - 1 } else { base.len() };
                let mut out = base[..len].to_vec();
                if let (Data::Last, Some(last)) = (data, out.last_mut()) {
                    *last = last.xor(Byte::VARIED);
                }
                out
            }
            Derivation::ExtractKeyFromKey => {
                let Data::Bit(bit) = data else { panic!("a bit") };
                let from = bit as usize / 8 % base.len();
                let Some(wanted) = wanted.filter(|wanted| *wanted <= base.len()) else { return (None, 0) };
                return (Some((0..wanted).map(|at| base[(from + at) % base.len()]).collect()), wanted);
            }
            _ if matches!(inputs.base, Flow::Head | Flow::Masked) => {
                let wanted = wanted.unwrap_or(base.len());
                return (Some(base[..wanted].to_vec()), wanted);
            }
            _ => return self.one_way(inputs, keys, wanted),
        };
        let natural = whole.len();
        let len = wanted.unwrap_or(natural);
        if len > natural {
            return (None, 0);
        }
        whole.truncate(len);
        (Some(whole), natural)
    }

    fn one_way(
        &mut self,
        inputs: &Inputs,
        keys: &[Key],
        wanted: Option<usize>,
    ) -> (Option<Vec<Byte>>, usize) {
        let is_victim = |key: &Key| key.value == self.keys[0].value;
        if !keys.iter().all(|key| is_victim(key) || key.is_known()) {
            return (None, 0);
        }
        let invertible = inputs.base == Flow::Invertible && keys.iter().skip(1).all(Key::is_known)
            || inputs.named == Flow::Invertible && keys[0].is_known();
        // Functions with the same classes count as one: this adds comparisons.
        let term = (inputs.extent, invertible);
        let number = self.terms.len() as u32;
        let number = *self.terms.entry(term).or_insert(number);
        if invertible {
            self.invertible.insert(number);
        }
        let natural = match inputs.extent {
            Extent::Fixed => LEN,
            _ => wanted.unwrap_or(LEN),
        };
        let len = wanted.unwrap_or(natural);
        if len > natural {
            return (None, 0);
        }
        // Two windows of one result, one byte apart.
        let shift = u8::from(inputs.extent == Extent::Window && len.is_multiple_of(2));
        let value = (0..len as u8).map(|at| Byte::of(Atom::Result(number, at + shift))).collect();
        (Some(value), natural)
    }

    fn image(&mut self, kind: Kind, bytes: Vec<Byte>, calls: &[u32]) {
        if bytes.iter().all(|byte| byte.atom.is_none()) {
            return;
        }
        let known = self.images.entry((kind, bytes)).or_default();
        if !known.iter().any(|known| known.iter().all(|call| calls.contains(call))) {
            known.push(calls.to_vec());
        }
    }

    /// Records what the attacker learns when he has the bytes of a key.
    fn learn(&mut self, key: &Key, how: Attack) {
        for byte in &key.value {
            let attack = match byte.atom {
                None => continue,
                Some(Atom::Victim(_)) => Attack::Read,
                Some(Atom::Result(term, _)) if self.invertible.contains(&term) => {
                    if how == Attack::Laundered { Attack::Laundered } else { Attack::Inverted }
                }
                // Under the policy strict, and with such a template, the token hides every result.
                Some(Atom::Result(..)) if self.hides_results() && how != Attack::Laundered => how,
                Some(Atom::Result(..)) => continue,
            };
            self.found.entry(attack).or_insert_with(|| format!("{} calls", key.calls.len()));
        }
    }

    fn hides_results(&self) -> bool {
        self.policy == Policy::Strict || self.keys[0].state.template == Template::Protects
    }

    /// Reads, wraps and digests every key.
    fn observe(&mut self) {
        for key in self.keys.clone() {
            if key.is_known() {
                continue;
            }
            // The attacker opens what leaves under his own wrapping key.
            let wraps = match self.rules {
                Rules::Real => rule::wrap(Secrecy::Whole, WrappingKey::Shared, &key.state).is_ok(),
                Rules::Old => true,
            };
            let trusted = key.state.with_trusted || self.policy == Policy::Strict;
            if wraps && key.state.extractable && !trusted {
                self.learn(&key, Attack::Laundered);
            }
            self.digest(&key);
            self.compare_results(&key);
            // C_GetAttributeValue of CKA_CHECK_VALUE.
            self.image(Kind::Message, key.value.clone(), &key.calls);
            if self.rules == Rules::Old || key.state.makeup.permits(AttributeType::SIGN) {
                self.image(Kind::MacKey, padded(&key.value), &key.calls);
            }
        }
    }

    /// Records the images of a key, as the base key and as a named key beside a known one, in each
    /// derivation that the rules allow.
    fn compare_results(&mut self, key: &Key) {
        let known = self.keys[1].clone();
        for at in 0..self.calls.len() {
            let call = &self.calls[at];
            let alone: &[&[&Key]] = &[&[key]];
            let both: &[&[&Key]] = &[&[key, &known], &[&known, key]];
            let mut flows = Vec::new();
            for keys in if call.names_key { both } else { alone } {
                let total = keys.iter().map(|key| key.value.len()).sum();
                let sizes = Sizes { base: keys[0].value.len(), total, wanted: None };
                let inputs = (call.inputs)(sizes);
                let states: Vec<_> = keys.iter().map(|key| key.state).collect();
                if self.decide(&inputs, &states, sizes).is_some() {
                    flows.push(if keys[0].is_known() { inputs.named } else { inputs.base });
                }
            }
            for flow in flows {
                self.images_of(flow, key);
            }
        }
    }

    fn images_of(&mut self, flow: Flow, key: &Key) {
        match flow {
            Flow::OneWay => {
                self.image(Kind::MacKey, padded(&key.value), &key.calls);
                self.image(Kind::Message, key.value.clone(), &key.calls);
            }
            Flow::Halves => self.image(Kind::Halves, key.value.clone(), &key.calls),
            Flow::Mixed => {
                for (front, back) in [(&[][..], &[][..]), (&[Byte::VARIED], &[]), (&[], &[Byte::VARIED])] {
                    self.image(Kind::Message, [front, &key.value, back].concat(), &key.calls);
                }
            }
            _ => {}
        }
    }

    fn digest(&mut self, key: &Key) {
        let flows: BTreeSet<_> = mechanism::all()
            .filter_map(|row| match row.flow {
                KeyFlow::Digests(flow) => Some(flow as u8),
                _ => None,
            })
            .collect();
        assert_eq!(flows, BTreeSet::from([Flow::Mixed as u8]));
        let allowed = match self.rules {
            Rules::Real => rule::digest(Flow::Mixed, &key.state, self.policy).is_ok(),
            Rules::Old => true,
        };
        if !allowed {
            return;
        }
        self.images_of(Flow::Mixed, key);
        let of_victim = key.value.iter().any(|byte| matches!(byte.atom, Some(Atom::Victim(_))));
        if of_victim && self.hides_results() {
            self.found.entry(Attack::Digested).or_insert_with(|| format!("{} calls", key.calls.len()));
        }
    }

    /// Compares all images of one kind that together need at most [`DEPTH`] calls.
    fn compare(&mut self) {
        let images: Vec<_> = self.images.iter().collect();
        let mut buckets: HashMap<(Kind, usize, usize, &[Byte]), Vec<usize>> = HashMap::new();
        let mut found = Vec::new();
        let of_victim = |bytes: &[Byte]| {
            let is = |byte: &Byte| matches!(byte.atom, Some(Atom::Victim(_)));
            if bytes.iter().any(is) { Attack::Compared } else { Attack::ComparedResults }
        };
        for (at, ((kind, bytes), _)) in images.iter().enumerate() {
            let unknown: BTreeSet<_> = bytes.iter().filter_map(|byte| byte.atom).collect();
            if unknown.len() <= GUESSED {
                found.push((of_victim(bytes), format!("{kind:?} of {}", text(bytes))));
            }
            if *kind == Kind::Halves {
                let (one, two) = bytes.split_at(bytes.len() / 2);
                buckets.entry((*kind, bytes.len(), 0, one)).or_default().push(at);
                buckets.entry((*kind, bytes.len(), 1, two)).or_default().push(at);
                continue;
            }
            // Images that differ in few places are equal in one of four parts.
            let content = bytes.len().min(LEN);
            for (part, piece) in bytes[..content].chunks(content.div_ceil(4)).enumerate() {
                buckets.entry((*kind, bytes.len(), part, piece)).or_default().push(at);
            }
        }
        for ((kind, ..), members) in &buckets {
            for (index, one) in members.iter().enumerate() {
                for two in &members[index + 1..] {
                    let (((_, a), by_a), ((_, b), by_b)) = (images[*one], images[*two]);
                    let close = match kind {
                        Kind::Halves => halves_show(a, b),
                        _ => differs_in_few(a, b),
                    };
                    if close && together(by_a, by_b, self.depth) {
                        let shown = format!("{kind:?} of {} and of {}", text(a), text(b));
                        found.push((of_victim(a), shown));
                    }
                }
            }
        }
        found.sort_by_key(|(_, shown)| shown.len());
        for (attack, shown) in found {
            self.found.entry(attack).or_insert(shown);
        }
    }
}

/// Writes bytes, with one word for each run of consecutive ones.
fn text(bytes: &[Byte]) -> String {
    let name = |byte: &Byte| {
        let varied = if byte.varied { "*" } else { "" };
        match byte.atom {
            None => format!("{:02x}{varied}", byte.constant),
            Some(Atom::Victim(at)) => format!("V{at}{varied}"),
            Some(Atom::Result(term, at)) => format!("R{term}.{at}{varied}"),
        }
    };
    let next = |a: &Byte, b: &Byte| match (a.atom, b.atom) {
        (None, None) => a == b,
        (Some(Atom::Victim(a)), Some(Atom::Victim(b))) => b == a + 1,
        (Some(Atom::Result(s, a)), Some(Atom::Result(t, b))) => s == t && b == a + 1,
        _ => false,
    };
    let runs = bytes.chunk_by(|a, b| a.varied == b.varied && next(a, b));
    let run = |run: &[Byte]| match run {
        [one] => name(one),
        run => format!("{}-{}", name(&run[0]), name(&run[run.len() - 1])),
    };
    runs.map(run).collect::<Vec<_>>().join(" ")
}

fn padded(bytes: &[Byte]) -> Vec<Byte> {
    let mut out = bytes.to_vec();
    out.resize(PADDED.max(out.len()), Byte::ZERO);
    out
}

/// Returns whether equal images show a few bytes: the two differ, at most in [`GUESSED`] relations.
fn differs_in_few(a: &[Byte], b: &[Byte]) -> bool {
    let mut relations = BTreeSet::new();
    for (one, two) in a.iter().zip(b) {
        if one == two {
            continue;
        }
        let (low, high) = (one.atom.min(two.atom), one.atom.max(two.atom));
        if low == high {
            // Equal secret bytes, or none: equality depends on the attacker's own bytes alone.
            if one.constant != two.constant && one.varied == two.varied {
                return false;
            }
            continue;
        }
        relations.insert((low, high, one.constant ^ two.constant, one.varied != two.varied));
        if relations.len() > GUESSED {
            return false;
        }
    }
    !relations.is_empty()
}

/// The XOR of two results with one equal half depends on the other halves alone.
fn halves_show(a: &[Byte], b: &[Byte]) -> bool {
    let (a, b) = (a.split_at(a.len() / 2), b.split_at(b.len() / 2));
    let few = |one: &[Byte], two: &[Byte]| {
        let unknown: BTreeSet<_> = one.iter().chain(two).filter_map(|byte| byte.atom).collect();
        one != two && !unknown.is_empty() && unknown.len() <= GUESSED
    };
    a.0 == b.0 && few(a.1, b.1) || a.1 == b.1 && few(a.0, b.0)
}

fn together(one: &[Vec<u32>], two: &[Vec<u32>], depth: usize) -> bool {
    one.iter().any(|one| two.iter().any(|two| one.iter().chain(two).collect::<BTreeSet<_>>().len() <= depth))
}

/// The rules of commit eb67fe51. Only the base key counted, except in the mechanisms that inherit.
fn old(inputs: &Inputs, keys: &[KeyState], policy: Policy, sizes: Sizes) -> Option<Demand> {
    let mechanisms_off = inputs.copies() && inputs.base != Flow::Head && policy == Policy::Strict;
    if mechanisms_off {
        return None;
    }
    let applied = match inputs.protection {
        Protection::Inherited => keys,
        _ => &keys[..1],
    };
    let inherits = inputs.protection == Protection::Inherited || policy == Policy::Strict;
    let any = |is: &dyn Fn(&KeyState) -> bool| inherits && applied.iter().any(is);
    let hidden: Vec<_> = keys.iter().filter(|key| inputs.copies() && key.is_unreadable()).collect();
    let joined = hidden.iter().any(|key| key.makeup == Makeup::Joined);
    let joins = inputs.base == Flow::Joined || inputs.base == Flow::Part && sizes.total > sizes.base;
    let len = sizes.wanted.unwrap_or(sizes.base);
    if !hidden.is_empty() && len < if joins { sizes.total } else { sizes.base } {
        let half = inputs.base == Flow::Head || 2 * len >= sizes.base;
        if sizes.wanted.is_some() && (len < rule::SHORTEST || !half || joins || joined) {
            return None;
        }
    }
    Some(Demand {
        sensitive: any(&|key| key.sensitive),
        unextractable: any(&|key| !key.extractable),
        with_trusted: hidden.iter().any(|key| key.with_trusted),
        makeup: if joined || joins && !hidden.is_empty() { Makeup::Joined } else { Makeup::Whole },
    })
}

/// Returns what the attacker finds for each victim under both policies, and the number of keys.
fn explore(rules: Rules) -> (Found, usize) {
    let mut all = BTreeMap::new();
    let mut keys = 0;
    for policy in [Policy::Compatible, Policy::Strict] {
        for (name, victim) in victims() {
            let begin = Instant::now();
            let explorer = Explorer::new(rules, policy, victim).run();
            println!(
                "{rules:?} {policy:?} {name}: {} kinds of calls, {} calls, {} keys, {} images, {:?}: {:?}",
                explorer.calls.len(),
                explorer.tried,
                explorer.keys.len(),
                explorer.images.len(),
                begin.elapsed(),
                explorer.found,
            );
            keys += explorer.keys.len();
            all.insert((name, policy == Policy::Strict), explorer.found);
        }
    }
    (all, keys)
}

/// The attacks by victim, and by whether the policy is strict.
type Found = BTreeMap<(&'static str, bool), BTreeMap<Attack, String>>;

/// Returns the pairs of wrappings that read a key which only a trusted key may wrap: H1.
fn wrapping_attacks(rules: Rules) -> Vec<String> {
    let victim = KeyState { with_trusted: true, extractable: true, ..victims()[0].1 };
    let ways: Vec<_> = mechanism::all()
        .filter_map(|row| row.wrapping().map(|wrapping| (row.id, wrapping)))
        .flat_map(|(id, wrapping)| {
            [(Nonce::Token, LEN), (Nonce::Caller, LEN), (Nonce::Caller, 8)]
                .map(|(nonce, len)| (id, len, wrapping.secrecy(nonce, len)))
        })
        .collect();
    let may = |secrecy, role, key: &KeyState| match rules {
        Rules::Real => rule::wrap(secrecy, role, key).is_ok(),
        Rules::Old => true,
    };
    let mut found = Vec::new();
    for role in [WrappingKey::Dedicated, WrappingKey::Shared] {
        for (id, _, secrecy) in
            ways.iter().filter(|(_, len, secrecy)| *len == LEN && may(*secrecy, role, &victim))
        {
            let own = |wanted: &[Secrecy]| {
                role == WrappingKey::Shared
                    || ways.iter().any(|(_, _, other)| wanted.contains(other) && may(*other, role, &OPEN))
            };
            let read = match secrecy {
                Secrecy::Whole => false,
                Secrecy::Parts => true,
                // A key stream under the same nonce, or the block that makes it.
                Secrecy::CallerNonce | Secrecy::TokenNonce => own(&[Secrecy::CallerNonce, Secrecy::Parts]),
            };
            if read {
                found.push(format!("{id} {secrecy:?} {role:?}"));
            }
        }
    }
    found
}

/// Returns the unwrappings that read a key by changing the wrapped bytes, although a template makes
/// it unreadable: M5.
fn unwrapping_attacks(rules: Rules) -> Vec<String> {
    let rows = mechanism::all().filter_map(|row| row.wrapping().map(|wrapping| (row.id, wrapping)));
    rows.flat_map(|(id, wrapping)| [4, 8, 12, 16].map(|tag| (id, tag, wrapping.integrity(tag))))
        .filter(|(_, _, integrity)| *integrity == Integrity::Malleable)
        .filter(|(_, _, integrity)| {
            rules == Rules::Old || rule::unwrap(*integrity, Template::Protects).is_ok()
        })
        .map(|(id, tag, _)| format!("{id} with a tag of {tag} bytes"))
        .collect()
}

#[test]
fn no_sequence_of_calls_reads_an_unreadable_key() {
    let (found, keys) = explore(Rules::Real);
    let found: Vec<_> = found.into_iter().filter(|(_, found)| !found.is_empty()).collect();
    assert!(found.is_empty(), "{found:?}");
    assert!(keys > 100, "{keys} keys");
    assert_eq!(wrapping_attacks(Rules::Real), [""; 0]);
    assert_eq!(unwrapping_attacks(Rules::Real), [""; 0]);
}

#[test]
fn the_explorer_finds_the_attacks_on_the_rules_of_the_second_review() {
    let (found, _) = explore(Rules::Old);
    let has =
        |name, strict, attack| assert!(found[&(name, strict)].contains_key(&attack), "{name} {attack:?}");
    for strict in [false, true] {
        has("never extractable", strict, Attack::Inverted);
        has("CKA_DERIVE_TEMPLATE", strict, Attack::Digested);
    }
    has("never extractable", false, Attack::Compared);
    has("never extractable", true, Attack::Compared);
    has("CKA_DERIVE_TEMPLATE", true, Attack::ComparedResults);
    has("CKA_WRAP_WITH_TRUSTED", false, Attack::Laundered);
    has("CKA_DERIVE_TEMPLATE", false, Attack::Derived);
    assert!(!wrapping_attacks(Rules::Old).is_empty());
    assert!(!unwrapping_attacks(Rules::Old).is_empty());
}
