//! The memory that a hostile message gets.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use jeton_agent_wire::{Answer, Call, Reply, Status, append, decode};
use jeton_words::cipher::{AeadScheme, GcmParams, Nonce};
use jeton_words::hash::Hash;
use jeton_words::params::Params;
use jeton_words::shape::MacFunction;
use jeton_words::tls::{Randoms, TlsPrf};
use serde::{Deserialize, Serialize};

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
    /// Whether there is no memory for long values.
    static IS_SHORT: Cell<bool> = const { Cell::new(false) };
}

/// Counts the bytes of this thread.
struct Counting;

fn count(bytes: isize) {
    LIVE.set(LIVE.get() + bytes);
    MOST.set(MOST.get().max(LIVE.get()));
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if IS_SHORT.get() && layout.size() >= 1 << 16 {
            return std::ptr::null_mut();
        }
        count(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Decodes a call. Returns whether it is one.
fn is_bounded(message: &[u8]) -> bool {
    is_bounded_value::<Call<'_>>(message)
}

/// Decodes a value. Returns whether it is one.
fn is_bounded_value<'a, T: Deserialize<'a>>(message: &'a [u8]) -> bool {
    let before = LIVE.get();
    MOST.set(before);
    let is_value = decode::<T>(message).is_ok();
    let most = MOST.get() - before;
    assert!(most <= 2 * message.len() as isize + (64 << 10), "{most} bytes for {}", message.len());
    assert_eq!(LIVE.get(), before);
    is_value
}

fn bytes(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    append(value, &mut bytes).expect("a message");
    bytes
}

/// Returns the number with which calls of a function begin. The functions of the table follow four
/// calls that have no row there.
fn number(name: &str) -> u8 {
    let place = jeton_words::token::Function::ALL.iter().position(|function| function.name() == name);
    place.expect("a function") as u8 + 2
}

const LABEL: u8 = 3;
const BYTES: u8 = 0;
const TEMPLATE: u8 = 1;
/// An attribute with an empty value: two numbers and a length.
const SHORT: [u8; 3] = [LABEL, BYTES, 0];
/// An attribute that has a template.
const NESTED: [u8; 2] = [LABEL, TEMPLATE];

/// Returns a list with a length that may be another one.
fn list(count: u64, items: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    bytes(&count).into_iter().chain(items.into_iter().flatten()).collect()
}

fn create(template: &[u8]) -> Vec<u8> {
    [&[number("C_CreateObject")], template].concat()
}

fn full() -> Vec<u8> {
    list(1024, (0..1024).map(|_| SHORT.to_vec()))
}

/// Returns a template with templates in it down to this depth, each with one attribute and a
/// length of `count`.
fn deep(depth: usize, count: u64) -> Vec<u8> {
    (0..depth).fold(list(1, [SHORT.to_vec()]), |below, _| list(count, [[&NESTED[..], &below].concat()]))
}

#[test]
fn a_template_has_at_most_1024_attributes() {
    assert!(is_bounded(&create(&full())));
    let one_more = list(1025, (0..1025).map(|_| SHORT.to_vec()));
    assert!(!is_bounded(&create(&one_more)));
    // Together with those of the templates in it.
    let halves = |inner: usize| {
        let inner = list(inner as u64, (0..inner).map(|_| SHORT.to_vec()));
        list(512, (0..511).map(|_| SHORT.to_vec()).chain([[&NESTED[..], &inner].concat()]))
    };
    assert!(is_bounded(&create(&halves(512))));
    assert!(!is_bounded(&create(&halves(513))));
    for count in [1024, 1025, 1 << 20, u64::MAX] {
        assert!(!is_bounded(&create(&list(count, [SHORT.to_vec()]))));
    }
    // A list that ends early, and the next message.
    assert!(is_bounded(&create(&full())));
}

#[test]
fn templates_have_at_most_four_levels_of_templates() {
    assert!(is_bounded(&create(&deep(4, 1))));
    for depth in [5, 6, 100, 1000] {
        assert!(!is_bounded(&create(&deep(depth, 1))), "{depth}");
    }
    for count in [1024, 600, 500, 205] {
        assert!(!is_bounded(&create(&deep(4, count))), "{count}");
    }
    assert!(is_bounded(&create(&deep(4, 1))));
}

#[test]
fn several_templates_have_bounded_memory() {
    let aes = [0x80, 0x21, 0];
    let pair = [&[number("C_GenerateKeyPair")][..], &aes, &full(), &full()].concat();
    assert!(is_bounded(&pair));
    let derive = |templates: &[u8]| [&[3][..], &aes, &[1], &list(0, []), templates].concat();
    assert!(is_bounded(&derive(&list(64, (0..64).map(|_| list(1, [SHORT.to_vec()]))))));
    assert!(is_bounded(&derive(&list(1, [deep(4, 1)]))));
    assert!(!is_bounded(&derive(&list(65, (0..65).map(|_| vec![0])))));
    assert!(!is_bounded(&derive(&list(64, (0..64).map(|_| full())))));
}

#[test]
fn the_parts_of_a_parameter_are_counted() {
    // CKM_SP800_108_COUNTER_KDF with the PRF CKM_AES_CMAC.
    let derive = |count: u64, fields: usize| {
        // The counter, which is mandatory, and keys.
        let all = [vec![0, 1, 0, 4]].into_iter().chain((1..fields).map(|_| vec![4, 1]));
        let fields = list(count, all.take(fields));
        let rest = [&fields[..], &[0, 1], &list(0, []), &list(0, [])].concat();
        [&[3, 0xac, 0x07, params("Sp800_108"), 1][..], &rest].concat()
    };
    assert!(is_bounded(&derive(64, 64)));
    for (count, fields) in [(65, 65), (1 << 30, 1), (u64::MAX, 0)] {
        assert!(!is_bounded(&derive(count, fields)));
    }
}

/// Returns the number of a parameter.
fn params(name: &str) -> u8 {
    let empty: Box<[u8]> = Box::default();
    let params = match name {
        "Sp800_108" => Params::Sp800_108 { prf: MacFunction::AesCmac, fields: Vec::new(), iv: empty },
        _ => Params::Data(empty),
    };
    bytes(&params)[0]
}

#[test]
fn a_long_value_is_copied_once() {
    // CKM_CONCATENATE_BASE_AND_DATA, whose data has a limit.
    let concatenate = |len: usize| {
        let data = list(len as u64, [vec![7; len]]);
        [&[3, 0xe2, 0x06, params("Data")][..], &data, &[1], &list(0, []), &list(0, [])].concat()
    };
    assert!(is_bounded(&concatenate(1 << 16)));
    assert!(!is_bounded(&concatenate((1 << 16) + 1)));
    // The additional data of CKM_AES_GCM may be longer.
    let data = vec![7; 1 << 20];
    let gcm = GcmParams { nonce: &[7; 12], aad: &data, tag_len: 16 }.scheme().expect("memory");
    let gcm = [&[0x87, 0x21][..], &bytes(&Params::Cipher(gcm))].concat();
    assert!(is_bounded(&[&[number("C_EncryptInit")][..], &gcm, &[1]].concat()));
    for len in [(1 << 20) + 1, 1 << 40, u64::MAX] {
        let digest = [&[number("C_DigestUpdate")][..], &list(len, [data.clone()])].concat();
        assert!(!is_bounded(&digest), "{len}");
    }
}

#[test]
fn attributes_to_read_are_counted() {
    let read = |asked: &[u8]| [&[2, 1][..], asked].concat();
    let room = |count: u64, rooms: Vec<u8>| [vec![LABEL, 2, 24], list(count, [rooms])].concat();
    assert!(is_bounded(&read(&list(1024, (0..1024).map(|_| vec![LABEL, 0])))));
    assert!(!is_bounded(&read(&list(1025, (0..1025).map(|_| vec![LABEL, 0])))));
    assert!(is_bounded(&read(&list(1, [room(1023, vec![0; 1023])]))));
    assert!(!is_bounded(&read(&list(1, [room(1024, vec![0; 1024])]))));
    let deep = (0..100_000).fold(Vec::new(), |mut below, _| {
        below.extend([2, 24, 1]);
        below
    });
    assert!(!is_bounded(&read(&list(1, [[vec![LABEL], deep].concat()]))));
}

/// Decodes the answer of a function with these results. Returns whether it is one.
fn is_bounded_answer(outcome: u8, results: &[u8]) -> bool {
    let answer = [&[0, outcome], results, &[0, 0, 0]].concat();
    is_bounded_value::<Answer<'_>>(&answer)
}

#[test]
fn the_lists_of_an_answer_are_counted() {
    // The results have the numbers of the calls, without the refused one.
    let result = |name| number(name) - 1;
    let items = |count: usize| list(count as u64, (0..count).map(|_| vec![1]));
    for (outcome, most, before) in [
        (result("C_GetSlotList"), 8192, &[][..]),
        (result("C_GetMechanismList"), 8192, &[]),
        (result("C_FindObjects"), 8192, &[1]),
    ] {
        let is_bounded = |list: Vec<u8>| is_bounded_answer(outcome, &[before, &list].concat());
        assert!(is_bounded(items(most)), "{outcome}");
        assert!(!is_bounded(items(most + 1)), "{outcome}");
        assert!(!is_bounded(items(1 << 20)), "{outcome}");
        assert!(!is_bounded(list(u64::MAX, [])), "{outcome}");
    }
    // The values of attributes, and the keys of a derivation.
    let refused = |count: usize| list(count as u64, (0..count).map(|_| vec![0, 0]));
    let nested =
        |count: usize| [vec![1, 4], list(count as u64, (0..count).map(|_| vec![LABEL, 0, 0]))].concat();
    assert!(is_bounded_answer(1, &refused(1024)) && is_bounded_answer(1, &nested(1023)));
    assert!(!is_bounded_answer(1, &refused(1025)) && !is_bounded_answer(1, &nested(1024)));
    let derived = |count: usize| [vec![0, 0, 1], list(count as u64, (0..count).map(|_| vec![0]))].concat();
    assert!(is_bounded_answer(2, &derived(64)) && !is_bounded_answer(2, &derived(65)));
}

/// Returns how many bytes a call or an answer needs beside the message.
fn memory_of<'a, T: Deserialize<'a>>(message: &'a [u8]) -> (bool, isize) {
    let before = LIVE.get();
    MOST.set(before);
    let is_value = decode::<T>(message).is_ok();
    (is_value, MOST.get() - before)
}

#[test]
fn of_a_long_text_a_struct_of_pkcs11_has_64_bytes() {
    let long = |text: &str| list(text.len() as u64, [text.as_bytes().to_vec()]);
    // The last one has no boundary of a character after 64 bytes.
    for text in ["a".repeat(1 << 20), format!("a{}", "\u{e9}".repeat(1 << 19))] {
        let answer = |name: &str, rest: &[u8]| [&[0, number(name) - 1], rest, &[0, 0, 0]].concat();
        let slot = answer("C_GetSlotInfo", &[&long(&text)[..], &long(&text), &[1; 6]].concat());
        let texts = [long(&text), long(&text), long(&text)].concat();
        let token = answer("C_GetTokenInfo", &[&[b' '; 32][..], &texts, &[0; 7], &[0; 4], &[0; 16]].concat());
        for message in [slot, token] {
            let (is_answer, most) = memory_of::<Answer<'_>>(&message);
            assert!(is_answer && most <= 3 * 64, "{most} bytes");
        }
    }
}

#[test]
fn a_long_nonce_gets_no_memory() {
    let nonce = |len: usize| {
        let gcm = GcmParams { nonce: &vec![7; len], aad: &[], tag_len: 16 }.scheme().expect("memory");
        [&[number("C_EncryptInit"), 0x87, 0x21][..], &bytes(&Params::Cipher(gcm)), &[1]].concat()
    };
    assert!(memory_of::<Call<'_>>(&nonce(AeadScheme::MAX_NONCE)).0);
    let (is_call, most) = memory_of::<Call<'_>>(&nonce(1 << 24));
    assert!(!is_call && most < 1 << 10, "{most} bytes");
}

/// A message may be as long as the memory that is left. Then the call fails, and not the process.
#[test]
fn a_value_for_which_there_is_no_memory_is_no_value() {
    let data = vec![7; 1 << 16];
    let concatenate =
        [&[3, 0xe2, 0x06][..], &bytes(&Params::Data(data.clone().into())), &[1], &list(0, []), &list(0, [])];
    let label = Params::TlsKdf {
        prf: TlsPrf::Hash(Hash::Sha256),
        label: data[..9].into(),
        randoms: Randoms { client: data[..32].into(), server: data[..32].into() },
        context: Some(data.clone().into()),
    };
    let handles = list(8192, (0..8192).map(|_| vec![1]));
    let values = [
        (bytes(&label), (|message| decode::<Params>(message).is_ok()) as fn(&[u8]) -> bool),
        (concatenate.concat(), |message| decode::<Call<'_>>(message).is_ok()),
        ([&[0, number("C_GetSlotList") - 1][..], &handles, &[0, 0, 0]].concat(), |message| {
            decode::<Answer<'_>>(message).is_ok()
        }),
        (list(AeadScheme::MAX_NONCE as u64, [data]), |message| decode::<Nonce>(message).is_ok()),
    ];
    for (number, (message, is_value)) in values.into_iter().enumerate() {
        assert!(is_value(&message), "{number}");
        IS_SHORT.set(true);
        let is_decoded = is_value(&message);
        IS_SHORT.set(false);
        assert!(!is_decoded, "{number}");
    }
}

#[test]
fn a_long_output_of_an_answer_is_copied_once() {
    let long = list(1 << 20, [vec![b'a'; 1 << 20]]);
    let out = [&bytes(&(1_u64 << 20))[..], &long].concat();
    assert!(is_bounded_answer(number("C_Encrypt") - 1, &out));
    let [mut told, mut random] = [vec![1, 3], vec![]];
    told.extend(&long);
    random.extend(&long);
    assert!(is_bounded_answer(1, &told));
    assert!(is_bounded_answer(number("C_GenerateRandom") - 1, &random));
}

/// A client asks for no figures, and decodes none.
#[test]
fn the_figures_of_an_agent_are_no_answer_to_a_client() {
    let applications = list(1 << 16, (0..1 << 16).map(|_| vec![0; 6]));
    for reply in [Reply::Status, Reply::Applications] {
        assert!(!is_bounded_value::<Reply<'_>>(&[bytes(&reply), applications.clone()].concat()));
    }
    let status = |clients: u64| [&[0; 4][..], &list(clients, [])].concat();
    assert!(is_bounded_value::<Status>(&[&status(0)[..], &[0; 21]].concat()));
    assert!(!is_bounded_value::<Status>(&status((1 << 16) + 1)));
}

/// Messages with random changes, of all functions.
#[test]
fn random_messages_have_bounded_memory() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |most: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as usize % most
    };
    // The memory of secrets, such as the output of a derivation, stays for the next ones.
    assert!(decode::<Answer<'_>>(&[0, 2, 0, 3, 1, 7, 0, 0, 0, 0]).is_ok());
    let (mut calls, mut answers) = (0, 0);
    for round in 0..200_000 {
        let len = 1 + random(64);
        let small = round % 2 == 0;
        let mut message: Vec<u8> = (0..len).map(|_| random(if small { 4 } else { 256 }) as u8).collect();
        message[0] = random(110) as u8;
        calls += usize::from(is_bounded(&message));
        is_bounded_value::<Reply<'_>>(&message);
        // The result of a function that succeeded.
        message.insert(0, 0);
        answers += usize::from(is_bounded_value::<Answer<'_>>(&message));
    }
    assert!(calls > 1000 && answers > 500, "{calls} {answers}");
}
