//! The explorer: makes every key that a number of calls can make, and asks what the attacker knows.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use jeton::backend::CipherScheme;
use jeton::id::AttributeType;
use jeton::mechanism::flow::{Extent, Flow, Inputs, KeyFlow, Nonce, Output, Secrecy, Sizes, Wrapping};
use jeton::mechanism::rule::{
    self, Demand, Form, KeyState, Makeup, Policy, Source, Structure, Template, WrappingKey,
};
use jeton::mechanism::{self, Derivation, Params};
use jeton::object::attribute::{len_fits, secret_types, structure};

use super::calls::{Call, Data, calls};
use super::images::{
    Atom, Byte, GUESSED, Kind, differs_in_few, halves_show, has_known_part, padded, parts_show, shows_parity,
    text,
};
use super::{LEN, Rules, old};

/// The number of calls that make keys.
const DEPTH: usize = 4;
/// The same for the old rules, which need fewer.
const OLD_DEPTH: usize = 3;
/// The longest key in bytes that the explorer makes: two victims.
const LONGEST: usize = 2 * LEN;

/// A key, and the calls that made it.
#[derive(Clone)]
pub(crate) struct Key {
    value: Vec<Byte>,
    state: KeyState,
    calls: Vec<u32>,
}

impl Key {
    fn is_known(&self) -> bool {
        self.value.iter().all(|byte| byte.atom.is_none())
    }
}

/// The attacks that the explorer can find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Attack {
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
    /// The head of a wrapped key is opened by another mechanism than the one that wrapped it.
    Opened,
    /// A key comes back from unwrapping as a key that signs: its signatures are derived keys.
    Signed,
    /// The attacker reads what is derived in two steps from a key whose template hides it.
    Composed,
    /// A key type reads parts of the victim apart, and the attacker changes one of them: K1 and K2
    /// of the fourth review.
    Parts,
    /// A key type sets the parity of each byte: K3.
    Parity,
    /// A key type reads the victim beside a part that the attacker chooses: K4.
    Chosen,
    /// A function of a key that counts, such as the next password.
    Uncounted,
}

pub(crate) struct Explorer {
    rules: Rules,
    policy: Policy,
    pub(crate) calls: Vec<Call>,
    pub(crate) keys: Vec<Key>,
    depth: usize,
    seen: HashMap<Vec<Byte>, Vec<(KeyState, Vec<u32>)>>,
    terms: HashMap<(Extent, bool), u32>,
    /// The numbers of the calls.
    made: HashMap<(usize, usize, usize, usize), u32>,
    /// The results that the attacker can invert.
    invertible: HashSet<u32>,
    pub(crate) images: BTreeMap<(Kind, Vec<Byte>), Vec<Vec<u32>>>,
    pub(crate) found: BTreeMap<Attack, String>,
    wanted: Vec<(usize, usize, Option<usize>, Option<usize>)>,
    pub(crate) tried: usize,
}

pub(crate) fn victims() -> [(&'static str, KeyState); 4] {
    [
        ("never extractable", KEPT),
        ("CKA_WRAP_WITH_TRUSTED", KeyState { extractable: true, with_trusted: true, ..KEPT }),
        ("CKA_DERIVE_TEMPLATE", KeyState { template: Template::Protects, ..KEPT }),
        ("CKK_HOTP", KeyState { extractable: true, with_trusted: true, counted: true, ..KEPT }),
    ]
}

const KEPT: KeyState = KeyState {
    sensitive: true,
    extractable: false,
    with_trusted: false,
    makeup: Makeup::Whole,
    template: Template::Open,
    counts_steps: false,
    counted: false,
};
pub(crate) const OPEN: KeyState = KeyState { sensitive: false, extractable: true, ..KEPT };
impl Explorer {
    /// The victim has `len` bytes. With [`LEN`] the search is deep.
    pub(crate) fn new(rules: Rules, policy: Policy, victim: KeyState, len: usize) -> Self {
        let value = (0..len as u8).map(|at| Byte::of(Atom::Victim(at))).collect();
        let known = |value: Vec<Byte>| Key { value, state: OPEN, calls: Vec::new() };
        let mut explorer = Self {
            rules,
            policy,
            calls: calls(),
            keys: Vec::new(),
            depth: if rules == Rules::Real && len == LEN { DEPTH } else { OLD_DEPTH },
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
        if len < LEN {
            // The rest of a key of triple DES.
            explorer.add(known(vec![Byte::ZERO; 8]));
        }
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

    pub(crate) fn run(mut self) -> Self {
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
        let may = self.wraps(Secrecy::Whole, WrappingKey::Dedicated, &key.state);
        if !may || !key.state.extractable || key.is_known() || key.calls.len() >= self.depth {
            return;
        }
        self.take(&[key.state]);
        let number = self.made.len() as u32;
        let number = *self.made.entry((usize::MAX, base, 0, 0)).or_insert(number);
        let calls: Vec<_> =
            key.calls.iter().copied().chain([number]).collect::<BTreeSet<_>>().into_iter().collect();
        if self.rules != Rules::Old {
            self.open_otherwise(&key, (KEPT, &calls));
        }
        self.add(Key { state: KEPT, calls, ..key });
    }

    /// Whether a key is wrapped. At cb7123e8 a mask and a template did not prevent it.
    fn wraps(&self, secrecy: Secrecy, by: WrappingKey, key: &KeyState) -> bool {
        let makeup = if key.makeup == Makeup::Masked { Makeup::Whole } else { key.makeup };
        match self.rules {
            Rules::Real | Rules::Fourth => rule::wrap(secrecy, by, key).is_ok(),
            Rules::Third => {
                rule::wrap(secrecy, by, &KeyState { makeup, template: Template::Open, ..*key }).is_ok()
            }
            Rules::Old => true,
        }
    }

    /// Wraps a key and opens it by another mechanism, by another parameter, or in another role. The
    /// unwrapping key makes it unreadable.
    fn open_otherwise(&mut self, key: &Key, (state, calls): (KeyState, &[u32])) {
        let steps = || format!("{} calls", calls.len() + 1);
        let is_real = self.is_current();
        for row in mechanism::all() {
            let Some(form) = row.wrapping(&Params::None) else { continue };
            if form == Wrapping::KeyWrap {
                // KW under the initial value of KWP succeeds if the key ends with a zero, and cuts
                // it.
                let own = Params::Cipher(CipherScheme::AesKw { iv: Some([9; 8]), padded: false });
                let form = row.wrapping(if is_real { &own } else { &Params::None }).expect("a form");
                let secrecy = form.secrecy(Nonce::Caller, key.value.len());
                let opens = rule::unwrap(form.integrity(0), Form::Alone, Template::Protects, self.policy);
                if self.wraps(secrecy, WrappingKey::Dedicated, &key.state) && opens.is_ok() {
                    let value = key.value[..key.value.len() - 1].to_vec();
                    self.add(Key { value, state, calls: calls.to_vec() });
                }
            }
            let wraps = self.wraps(form.secrecy(Nonce::Caller, LEN), WrappingKey::Dedicated, &key.state);
            let head = rule::unwrap(form.integrity(0), Form::Head, Template::Protects, self.policy);
            if form == Wrapping::Hybrid && wraps && (head.is_ok() || !is_real) {
                self.found.entry(Attack::Opened).or_insert_with(steps);
            }
        }
        // Under *compatible* the owner names the usages in CKA_UNWRAP_TEMPLATE.
        let signs = !is_real || Source::Unwrapped.permits(AttributeType::SIGN, &[], false);
        if self.policy == Policy::Strict && signs {
            self.found.entry(Attack::Signed).or_insert_with(steps);
        }
    }

    /// Derives from a hidden result of a victim whose template hides results. Two derivations can
    /// be a third one.
    fn compose(&mut self, key: &Key) {
        let is_result = |byte: &Byte| matches!(byte.atom, Some(Atom::Result(..)));
        if self.keys[0].state.template != Template::Protects || !key.value.iter().all(is_result) {
            return;
        }
        for at in 0..self.calls.len() {
            let sizes = Sizes { base: key.value.len(), total: key.value.len(), wanted: None };
            let inputs = (self.calls[at].inputs)(sizes);
            let Some(demand) = self.decide(&inputs, &[key.state], sizes) else { continue };
            let state = self.state(&inputs, &[key.state], &demand, LEN, LEN);
            if inputs.output == Output::Visible || !state.is_unreadable() {
                let shown = format!("{:?} after {} calls", self.calls[at].derivation, key.calls.len());
                self.found.entry(Attack::Composed).or_insert(shown);
            }
        }
    }

    fn call_all(&mut self, base: usize, named: usize) {
        let (a, b) = (&self.keys[base], &self.keys[named]);
        let one = a.calls.len();
        let both = one + b.calls.iter().filter(|call| !a.calls.contains(call)).count();
        // Only a concatenation takes two keys that neither are known nor the victim.
        if named > 1
            && base > 1
            && !self.keys[named].is_known()
            && (both >= self.depth || a.value.len() + b.value.len() > LONGEST)
        {
            return;
        }
        // A result of the victim is a fresh key. A result of any other key adds nothing to it,
        // except the images that `observe` compares.
        let is_victim = |at: usize| self.keys[at].value == self.keys[0].value;
        let is_fresh = |at: usize| is_victim(at) || self.keys[at].is_known();
        let known = [base, named].map(|at| self.keys[at].is_known());
        let len = self.keys[base].value.len();
        let lens =
            BTreeSet::from([None, Some(16), Some(20), Some(24), Some(len.saturating_sub(1)), Some(len)]);
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
        self.take(&states);
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
            let mut types = types_of(key.value.len());
            let sets_parity = types.any(|structure| matches!(structure, Structure::PartsWithParity(_)));
            // At d77ec499 a derivation set the parity. The attacker derives other types from it.
            let derives = key.state.makeup.permits(AttributeType::DERIVE);
            if self.rules == Rules::Fourth && sets_parity && derives {
                let value = key.value.iter().map(|byte| byte.with_parity()).collect();
                self.add(Key { value, ..key.clone() });
            }
            self.add(key);
        }
    }

    /// Asks the rules.
    fn decide(&self, inputs: &Inputs, keys: &[KeyState], sizes: Sizes) -> Option<Demand> {
        match self.rules {
            Rules::Real => rule::derive(inputs, keys, self.policy).ok(),
            Rules::Fourth | Rules::Third => {
                let keys: Vec<_> = keys.iter().copied().map(uncounted).collect();
                rule::derive(inputs, &keys, self.policy).ok()
            }
            Rules::Old => old::derive(inputs, keys, self.policy, sizes),
        }
    }

    /// Records that the rules let a call take a key that counts.
    fn take(&mut self, keys: &[KeyState]) {
        if keys.iter().any(|key| key.counted) {
            self.found.entry(Attack::Uncounted).or_default();
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
            template: match forced && (inputs.copies() || self.is_current()) {
                true => Template::Protects,
                false => Template::Open,
            },
            counts_steps: false,
            counted: false,
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
                let masked = if data == Data::First { out.first_mut() } else { out.last_mut() };
                if let (Data::First | Data::Last, Some(masked)) = (data, masked) {
                    *masked = masked.xor(Byte::VARIED);
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
            let wraps = self.wraps(Secrecy::Whole, WrappingKey::Shared, &key.state);
            let trusted = key.state.with_trusted || self.policy == Policy::Strict;
            if wraps && key.state.extractable && !trusted {
                self.learn(&key, Attack::Laundered);
            }
            self.digest(&key);
            self.compose(&key);
            self.compare_results(&key);
            self.read_as_each_type(&key);
            if self.rules == Rules::Old || key.state.makeup.permits(AttributeType::SIGN) {
                self.image(Kind::MacKey, padded(&key.value), &key.calls);
            }
        }
    }

    /// Whether the rules are those of the token, but for the types of keys and their check values.
    fn is_current(&self) -> bool {
        matches!(self.rules, Rules::Real | Rules::Fourth)
    }

    /// Records what a key shows as a key of each type that the rules allow: its check value, which
    /// C_GetAttributeValue returns and a template guesses, and its ciphertexts.
    fn read_as_each_type(&mut self, key: &Key) {
        let makeup = key.state.makeup;
        let is_real = self.rules == Rules::Real;
        if is_real && !rule::has_check_value(makeup) && !makeup.permits(AttributeType::ENCRYPT) {
            return;
        }
        // The digest of a generic secret.
        self.image(Kind::Message, key.value.clone(), &key.calls);
        for structure in types_of(key.value.len()) {
            let parts = match structure {
                Structure::Whole => continue,
                Structure::Parts(parts) | Structure::PartsWithParity(parts) => parts,
            };
            if is_real && rule::becomes(makeup, structure).is_err() {
                continue;
            }
            // A cipher ignores the parity.
            let value: Vec<_> = key.value.iter().map(|byte| byte.without_parity()).collect();
            let of_victim = value.iter().any(|byte| matches!(byte.atom, Some(Atom::Victim(_))));
            if of_victim && has_known_part(parts, &value) {
                let shown = format!("{structure:?} of {}", text(&value));
                self.found.entry(Attack::Chosen).or_insert(shown);
            }
            self.image(Kind::Parts(parts), value, &key.calls);
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
            Flow::OneWay | Flow::Step => {
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
            Rules::Fourth | Rules::Third => {
                rule::digest(Flow::Mixed, &uncounted(key.state), self.policy).is_ok()
            }
            Rules::Old => true,
        };
        if !allowed {
            return;
        }
        self.take(&[key.state]);
        self.images_of(Flow::Mixed, key);
        let of_victim = key.value.iter().any(|byte| matches!(byte.atom, Some(Atom::Victim(_))));
        if of_victim && self.hides_results() {
            self.found.entry(Attack::Digested).or_insert_with(|| format!("{} calls", key.calls.len()));
        }
    }

    /// Compares all images of one kind that together need at most [`DEPTH`] calls.
    fn compare(&mut self) {
        let images: Vec<_> = self.images.iter().collect();
        let mut buckets: HashMap<(Kind, usize, usize, Vec<Byte>), Vec<usize>> = HashMap::new();
        let mut found = Vec::new();
        let of_victim = |bytes: &[Byte]| {
            let is = |byte: &Byte| matches!(byte.atom, Some(Atom::Victim(_)));
            if bytes.iter().any(is) { Attack::Compared } else { Attack::ComparedResults }
        };
        for (at, ((kind, bytes), _)) in images.iter().enumerate() {
            let unknown: BTreeSet<_> = bytes.iter().filter_map(|byte| byte.atom).collect();
            if unknown.len() <= GUESSED && !matches!(kind, Kind::Parts(_)) {
                found.push((of_victim(bytes), format!("{kind:?} of {}", text(bytes))));
            }
            if *kind == Kind::Halves {
                let (one, two) = bytes.split_at(bytes.len() / 2);
                buckets.entry((*kind, bytes.len(), 0, one.to_vec())).or_default().push(at);
                buckets.entry((*kind, bytes.len(), 1, two.to_vec())).or_default().push(at);
                continue;
            }
            if let Kind::Parts(parts) = *kind {
                let len = bytes.len() / parts;
                for part in 0..parts {
                    let others = [&bytes[..part * len], &bytes[(part + 1) * len..]].concat();
                    buckets.entry((*kind, bytes.len(), part, others)).or_default().push(at);
                }
                continue;
            }
            // Images that differ in few places are equal in one of four parts.
            let content = bytes.len().min(LEN);
            for (part, piece) in bytes[..content].chunks(content.div_ceil(4)).enumerate() {
                let piece = piece.iter().map(|byte| byte.without_parity()).collect();
                buckets.entry((*kind, bytes.len(), part, piece)).or_default().push(at);
            }
        }
        for ((kind, ..), members) in &buckets {
            for (index, one) in members.iter().enumerate() {
                for two in &members[index + 1..] {
                    let (((_, a), by_a), ((_, b), by_b)) = (images[*one], images[*two]);
                    let close = match kind {
                        Kind::Halves => halves_show(a, b),
                        Kind::Parts(parts) => parts_show(*parts, a, b),
                        _ => differs_in_few(a, b),
                    };
                    if close && together(by_a, by_b, self.depth) {
                        let shown = format!("{kind:?} of {} and of {}", text(a), text(b));
                        let attack = match (of_victim(a), kind) {
                            (Attack::Compared, Kind::Parts(_)) => Attack::Parts,
                            (Attack::Compared, _) if shows_parity(a, b) => Attack::Parity,
                            (attack, _) => attack,
                        };
                        found.push((attack, shown));
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

/// Returns the key as the rules before those of the token saw it: only a copy was counted.
fn uncounted(key: KeyState) -> KeyState {
    KeyState { counted: false, ..key }
}

/// Returns the structure of each type of the table that takes a key of this length.
fn types_of(len: usize) -> impl Iterator<Item = Structure> {
    secret_types().filter(move |key_type| len_fits(*key_type, len)).map(structure)
}

fn together(one: &[Vec<u32>], two: &[Vec<u32>], depth: usize) -> bool {
    one.iter().any(|one| two.iter().any(|two| one.iter().chain(two).collect::<BTreeSet<_>>().len() <= depth))
}
