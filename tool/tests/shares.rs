//! Shares of secrets: every set of M recovers the secret, fewer say nothing about it, and each
//! error of a person who types one is named.

mod common;

use bech32::{Bech32m, ByteIterExt, Fe32IterExt, Hrp};
use blahaj::Sharks;
use common::*;
use jeton_tool::shares::{self, Collection, Purpose, Scheme, Secret, Share, Typo};
use zeroize::Zeroizing;

/// The number of bytes of a statistical test.
const SAMPLE: usize = 1 << 20;

fn scheme(text: &str) -> Scheme {
    text.parse().expect("a scheme")
}

fn split(scheme_of: &str) -> (Secret, Vec<Share>) {
    let secret = shares::random().expect("random numbers");
    let all = shares::split(Purpose::SealingKey, &secret, scheme(scheme_of)).expect("shares");
    (secret, all)
}

fn recover<'a>(some: impl IntoIterator<Item = &'a Share>) -> Result<Secret, String> {
    let mut collection = Collection::new(None);
    for share in some {
        collection.add(share.clone()).map_err(|error| error.to_string())?;
    }
    collection.recover().map_err(|error| error.to_string())
}

/// Returns the text of a share with a right checksum, which may be hostile.
fn text(part: &str, bytes: &[u8]) -> String {
    let part = Hrp::parse(part).expect("a human-readable part");
    bytes.iter().copied().bytes_to_fes().with_checksum::<Bech32m>(&part).chars().collect()
}

/// Returns the bytes of a share: its purpose, threshold, set and value.
fn bytes(share: &Share) -> Vec<u8> {
    bech32::decode(&share.text()).expect("Bech32m").1
}

/// Returns a share with a right checksum whose value was changed.
fn forged(share: &Share) -> Share {
    let mut bytes = bytes(share);
    *bytes.last_mut().expect("a byte") ^= 1;
    text(&format!("share{}", share.number), &bytes).parse().expect("a share")
}

#[test]
fn every_set_of_the_threshold_recovers_the_secret_and_no_smaller_one() {
    for (m, n) in [(2, 2), (2, 3), (3, 5), (5, 5), (2, 16), (16, 16)] {
        let (secret, all) = split(&format!("{m}/{n}"));
        assert_eq!(all.len(), n);
        for set in 1..1_u32 << n {
            let some = || (0..n).filter(|at| set >> at & 1 == 1).map(|at| &all[at]);
            match set.count_ones() as usize {
                // Of the 65,535 sets of 16 shares, those of up to 3 shares are enough.
                size if n == 16 && m == 2 && size > 3 => {}
                size if size >= m => {
                    assert_eq!(recover(some()).expect("a secret"), secret, "{m}/{n}, {set:b}");
                    let backwards: Vec<_> = some().collect();
                    assert_eq!(recover(backwards.into_iter().rev()).expect("a secret"), secret);
                }
                size if size + 1 == m || size == 1 => {
                    says(
                        recover(some()).expect_err("too few"),
                        format!("{m} shares are needed, {size} given"),
                    );
                }
                _ => {}
            }
        }
    }
}

#[test]
fn only_schemes_within_the_limits_are_accepted() {
    for wrong in
        ["", "2", "2/", "/3", "1/3", "0/3", "4/3", "2/17", "17/17", "2/256", "-2/3", "2/3/4", "2 of 3"]
    {
        says(wrong.parse::<Scheme>().expect_err(wrong), "as in 2/3");
    }
    for right in ["2/2", "2/3", "16/16"] {
        scheme(right);
    }
}

/// Returns the chi-square statistic of counts that should be equal.
fn chi_square(counts: &[u32]) -> f64 {
    let total: u32 = counts.iter().sum();
    let expected = f64::from(total) / counts.len() as f64;
    counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum()
}

/// Checks that values look uniform. The mean of the statistic is the number of the cells less one,
/// and its variance twice that. The limit is 7 standard deviations above the mean.
fn expect_uniform(values: impl Iterator<Item = usize>, cells: usize, what: &str) {
    let mut counts = vec![0; cells];
    values.for_each(|value| counts[value] += 1);
    let (found, free) = (chi_square(&counts), (cells - 1) as f64);
    assert!(found < free + 7.0 * (2.0 * free).sqrt(), "{what}: chi-square {found} of {cells} cells");
}

/// Doubles an element of the field GF(256) of the crate, whose polynomial is 0x11d.
fn doubled(byte: u8) -> u8 {
    byte << 1 ^ if byte & 0x80 == 0 { 0 } else { 0x1d }
}

/// Returns the values of shares 1, 2 and 3 of a long secret.
fn points(threshold: u8, secret: u8) -> Vec<Vec<u8>> {
    let all = Sharks(threshold).dealer(&vec![secret; SAMPLE]).take(3);
    all.map(|share| Vec::from(&share).split_off(1)).collect()
}

/// The fault of RUSTSEC-2024-0398 and of the audit of vsss-rs: coefficients that are never zero.
#[test]
fn coefficients_are_uniform_with_zero_and_the_highest_one_too() {
    // f(1) is the secret and the only coefficient.
    let linear = points(2, 0x5a);
    expect_uniform(linear[0].iter().map(|byte| usize::from(byte ^ 0x5a)), 256, "a of s + ax");
    // f(1) = s + a + b, and f(2) = s + 2a + 4b. So 2 (f(1) - s) + f(2) - s = 6b, and
    // 4 (f(1) - s) + f(2) - s = 6a. A multiple of a uniform element is uniform.
    let square = points(3, 0x5a);
    let pairs = || square[0].iter().zip(&square[1]).map(|(one, two)| (one ^ 0x5a, two ^ 0x5a));
    expect_uniform(pairs().map(|(one, two)| usize::from(doubled(one) ^ two)), 256, "b of s + ax + bx^2");
    let a = pairs().map(|(one, two)| usize::from(doubled(doubled(one)) ^ two));
    expect_uniform(a, 256, "a of s + ax + bx^2");
    // The test itself finds coefficients that are never zero.
    let biased: Vec<u32> = (0..256).map(|value| if value == 0 { 0 } else { SAMPLE as u32 / 255 }).collect();
    assert!(chi_square(&biased) > 255.0 + 7.0 * 510_f64.sqrt());
}

#[test]
fn fewer_shares_than_the_threshold_are_uniform_for_every_secret() {
    for secret in [0x00, 0x01, 0xff] {
        for (number, share) in points(2, secret).iter().enumerate() {
            let what = format!("share {} of 2 for the secret {secret}", number + 1);
            expect_uniform(share.iter().map(|byte| usize::from(*byte)), 256, &what);
        }
        let three = points(3, secret);
        for (left, right) in [(0, 1), (0, 2), (1, 2)] {
            let pairs = three[left].iter().zip(&three[right]);
            let pairs = pairs.map(|(one, two)| usize::from(*one) << 8 | usize::from(*two));
            expect_uniform(pairs, 1 << 16, &format!("two shares of 3 for the secret {secret}"));
        }
    }
}

/// The same, for the shares that this package makes, with their digest.
#[test]
fn one_share_of_a_known_secret_is_uniform() {
    let secret: Secret = Zeroizing::new([0; 32]);
    let value = |_| {
        let all = shares::split(Purpose::SoPin, &secret, scheme("2/2")).expect("shares");
        bytes(&all[1]).split_off(6)
    };
    let all: Vec<_> = (0..SAMPLE / 256).map(value).collect();
    assert!(all.iter().all(|value| value.len() == 40));
    expect_uniform(all.iter().flatten().map(|byte| usize::from(*byte)), 256, "the bytes of share 2");
}

#[test]
fn each_typing_error_names_the_share() {
    let (_, all) = split("2/16");
    let text = all[1].text().to_string();
    let typo = |text: &str| text.parse::<Share>().err().expect("a mistyped share");
    let with = |at: usize, letter: char| {
        let mut letters: Vec<_> = text.chars().collect();
        letters[at] = letter;
        letters.into_iter().collect::<String>()
    };
    // Each single letter that is replaced by another one of the alphabet.
    for at in "share21".len()..text.len() {
        let other = if text.as_bytes()[at] == b'q' { 'p' } else { 'q' };
        assert_eq!(typo(&with(at, other)), Typo::Checksum(2), "{at}");
    }
    // Two neighbours that changed their places.
    for at in "share21".len()..text.len() - 1 {
        let mut letters: Vec<_> = text.chars().collect();
        letters.swap(at, at + 1);
        let swapped: String = letters.into_iter().collect();
        assert!(swapped == text || typo(&swapped) == Typo::Checksum(2), "{at}");
    }
    for (wrong, letter) in [('o', 'o'), ('b', 'b'), ('i', 'i'), ('1', '1'), ('O', 'o'), ('é', 'é')] {
        assert_eq!(typo(&with(20, wrong)), Typo::Letter(2, 14, letter));
    }
    assert_eq!(typo(&text[..text.len() - 3]), Typo::Short(2, 3));
    assert_eq!(typo(&(text.clone() + "q")), Typo::Long(2, 1));
    assert_eq!(typo(&text.repeat(2)).to_string().split(':').next(), Some("share 2 is mistyped"));
    // Another number: the checksum covers it.
    assert_eq!(typo(&text.replacen("share2", "share3", 1)), Typo::Checksum(3));
    assert_eq!(typo(&text.replacen("share2", "share11", 1)), Typo::Checksum(11));
    for wrong in ["", "share", "share2", "share01qq", "share171qq", "hello", "AGE-SECRET-KEY-1QQ", "\u{2584}"]
    {
        assert_eq!(typo(wrong), Typo::NotShare, "{wrong}");
    }
    says(typo(&with(20, 'o')).to_string(), "share 2 is mistyped: the letter 'o' is in no share");
    // Spaces, hyphens and capitals are no errors.
    let spaced: String = text.to_uppercase().chars().flat_map(|letter| [letter, ' ', '-', '\t']).collect();
    assert!(*spaced.parse::<Share>().expect("a share").text() == text);
    for share in &all {
        assert_eq!(share.text().parse::<Share>().expect("a share").number, share.number);
    }
}

#[test]
fn a_hostile_share_with_a_right_checksum_is_refused() {
    let (_, all) = split("2/3");
    let right = bytes(&all[0]);
    let parse = |part: &str, bytes: &[u8]| text(part, bytes).parse::<Share>();
    assert!(parse("share1", &right).is_ok());
    for (at, value) in [(0, 0), (0, 4), (0, 255), (1, 0), (1, 1), (1, 17), (1, 255)] {
        let mut wrong = right.clone();
        wrong[at] = value;
        assert_eq!(parse("share1", &wrong).err(), Some(Typo::Unknown(1)), "{at}: {value}");
    }
    for number in ["0", "17", "255", "256", "99999999999", "-1", "1x"] {
        let text = text(&format!("share{number}"), &right);
        assert!(
            matches!(text.parse::<Share>(), Err(Typo::NotShare | Typo::Letter(..) | Typo::Checksum(_))),
            "{text}"
        );
    }
    for len in [0, 1, 6, 45] {
        assert!(matches!(parse("share1", &right[..len]), Err(Typo::Short(1, _))), "{len}");
    }
    assert!(matches!(parse("share1", &[&right[..], &[0]].concat()), Err(Typo::Long(1, _))));
    assert!(matches!(parse("share1", &right.repeat(10)), Err(Typo::Long(1, _))));
    // The same letters with bits set that belong to no byte.
    let fes = right.iter().copied().bytes_to_fes().collect::<Vec<_>>();
    let last = *fes.last().expect("a letter");
    let other = bech32::Fe32::try_from(last.to_u8() ^ 1).expect("5 bits");
    let part = Hrp::parse("share1").expect("a part");
    let loose: String = fes[..fes.len() - 1]
        .iter()
        .chain([&other])
        .copied()
        .with_checksum::<Bech32m>(&part)
        .chars()
        .collect();
    assert_eq!(loose.parse::<Share>().err(), Some(Typo::Unknown(1)));
    // A checksum of Bech32, which is another one.
    let old: String =
        right.iter().copied().bytes_to_fes().with_checksum::<bech32::Bech32>(&part).chars().collect();
    assert_eq!(old.parse::<Share>().err(), Some(Typo::Checksum(1)));
    // A share that lowers the threshold.
    let mut low = bytes(&split("3/3").1[0]);
    low[1] = 2;
    let low = [text("share1", &low), text("share2", &low)].map(|text| text.parse().expect("a share"));
    says(recover(&low).expect_err("forged"), "do not fit together");
}

#[test]
fn shares_that_do_not_belong_together_are_named() {
    let ((_, one), (_, other)) = (split("2/3"), split("2/3"));
    says(recover([&one[0], &other[1]]).expect_err("two sets"), "share 2 belongs to the set");
    says(recover([&one[2], &one[2]]).expect_err("twice"), "share 3 was given twice");
    says(recover([&one[2], &forged(&one[2])]).expect_err("two"), "two different shares with the number 3");
    says(recover([&one[0], &forged(&one[1])]).expect_err("forged"), "do not fit together");
    // With more shares than needed the forged one is named, wherever it is.
    for at in 0..3 {
        let mut all = one.clone();
        all[at] = forged(&one[at]);
        says(recover(&all).expect_err("forged"), format!("share {} does not fit the others", at + 1));
    }
    let two = [forged(&one[0]), forged(&one[1]), one[2].clone()];
    says(recover(&two).expect_err("two forged"), "do not fit together");
    let mut pin = Collection::new(Some(Purpose::SoPin));
    let error = pin.add(one[0].clone()).expect_err("another purpose");
    says(error.to_string(), "share 1 recovers a sealing key, not an SO PIN");
}

#[test]
fn a_pin_of_any_length_has_shares_of_one_length() {
    for pin in ["1", "12345678", "päss wörd", "0123456789012345678901234567890"] {
        let secret = shares::of_pin(pin).expect("a secret");
        assert_eq!(*shares::pin(&secret).expect("a PIN"), pin);
    }
    for wrong in ["", "01234567890123456789012345678901"] {
        says(shares::of_pin(wrong).expect_err("a length").to_string(), "1 to 31 bytes");
    }
    assert!(shares::pin(&Zeroizing::new([32; 32])).is_err());
    assert!(shares::pin(&Zeroizing::new([200; 32])).is_err());
}

/// Returns the text of the QR code in the comments of a file.
fn scanned(file: &str) -> String {
    let is_code = |line: &&str| line.contains(['\u{2580}', '\u{2584}', '\u{2588}']);
    let lines: Vec<Vec<char>> =
        file.lines().filter(is_code).map(|line| line[2..].chars().collect()).collect();
    let (width, height) = (lines[0].len(), 2 * lines.len());
    let is_dark = |x: usize, y: usize| match lines[y / 2].get(x) {
        Some('\u{2588}') => true,
        Some('\u{2580}') => y.is_multiple_of(2),
        Some('\u{2584}') => !y.is_multiple_of(2),
        _ => false,
    };
    // A scanner sees several pixels for each module.
    let mut image = rqrr::PreparedImage::prepare_from_greyscale(8 * width, 8 * height, |x, y| {
        if is_dark(x / 8, y / 8) { 0 } else { 255 }
    });
    let grids = image.detect_grids();
    assert_eq!(grids.len(), 1, "{file}");
    grids[0].decode().expect("a QR code").1
}

#[test]
fn a_backup_is_restored_with_shares_of_its_identity() {
    let Some(tool) = Tool::new() else { return };
    tool.ok("key generate --type ec:p256 --label first");
    let made = tool.json("backup new-key backup.key --shares 2/3 --json");
    let recipient = made["recipient"].as_str().expect("a recipient");
    assert!(!Path::new(&tool.file("backup.key")).exists());
    let again = tool.json("backup new-key backup.key --shares 2/3 --if-absent --json");
    assert_eq!(again["recipient"], recipient);
    says(tool.fails(4, "backup new-key backup.key --shares 2/3"), "backup.key.1 exists");
    for number in 1..=3 {
        let name = format!("backup.key.{number}");
        assert_eq!(fs::metadata(tool.file(&name)).expect("a share").permissions().mode() & 0o777, 0o600);
        let file = String::from_utf8(tool.read(&name)).expect("text");
        says(&file, format!("# Share {number} of 3 of the identity of a backup"));
        says(&file, recipient);
        let scanned: Share = scanned(&file).parse().expect("a share");
        let read = shares::read(Path::new(&tool.file(&name))).expect("a share");
        assert_eq!((scanned.number, &*scanned.text()), (number, &*read.text()));
    }
    tool.ok(&format!("backup create backup --recipient {recipient}"));
    let share = |numbers: &[u8]| -> String {
        numbers.iter().map(|number| format!(" --share backup.key.{number}")).collect()
    };
    for pair in [[1, 2], [1, 3], [2, 3], [3, 1]] {
        says(tool.ok(&format!("backup verify backup{}", share(&pair))), "Every record opens");
    }
    tool.ok(&format!("backup verify backup{}", share(&[3, 1, 2])));
    says(tool.fails(2, &format!("backup verify backup{}", share(&[2]))), "2 shares are needed, 1 given");
    refused(&mut tool.command("backup verify backup"), "an --identity or a --share");
    refused(&mut tool.command(&format!("backup verify backup{}", share(&[2, 2]))), "given twice");
    fs::rename(tool.file("tokens"), tool.file("old")).expect("a directory");
    tool.ok(&format!("backup restore backup{}", share(&[3, 2])));
    tool.signs("first");

    // A mistyped file names itself and its share.
    let file = String::from_utf8(tool.read("backup.key.2")).expect("text");
    let at = file.lines().position(|line| line.starts_with("share2")).expect("a share");
    let mut lines: Vec<_> = file.lines().map(str::to_owned).collect();
    let end = lines[at + 1].pop().expect("a letter");
    lines[at + 1].push(if end == 'q' { 'p' } else { 'q' });
    tool.write("typed", lines.join("\n"));
    let wrong = "backup verify backup --share backup.key.1 --share typed";
    says(tool.fails(8, wrong), "typed: share 2 is mistyped: its checksum is wrong");
    // The identity of another backup.
    tool.ok("backup new-key other --shares 2/2");
    refused(&mut tool.command("backup verify backup --share other.1 --share other.2"), "for other keys");
    // The shares recover the file that `backup new-key` would have written.
    tool.ok("shares combine backup.key.1 backup.key.3 --out whole");
    tool.ok("backup verify backup --identity whole");
    tool.ok("shares split whole --of identity --shares 2/2");
    tool.ok("backup verify backup --share whole.1 --share whole.2");
}

#[test]
fn a_sealing_key_has_shares_beside_it() {
    let Some(tool) = Tool::new() else { return };
    tool.ok("sealing-key new seal --shares 3/5");
    let names: Vec<_> = (1..=5).map(|number| format!("seal.{number}")).collect();
    says(tool.ok("shares combine seal.5 seal.1 seal.3 --out copy"), "");
    assert_eq!(tool.read("copy"), tool.read("seal"));
    assert!(names.iter().all(|name| tool.files(".").contains(name)));
    says(tool.fails(2, "shares combine seal.5 seal.1 --out other"), "3 shares are needed, 2 given");
    assert!(!tool.files(".").contains("other"));
    tool.write("other.2", "");
    says(tool.fails(4, "sealing-key new other --shares 2/2"), "other.2 exists");
    assert!(!tool.files(".").iter().any(|name| name == "other" || name == "other.1"));
    tool.write("short", "31 bytes are too few, 33 to many");
    tool.write("long", [0; 33]);
    tool.write("text", "no key");
    tool.ok("shares split short --of sealing-key --shares 2/2");
    refused(&mut tool.command("shares split long --of sealing-key --shares 2/2"), "larger than 32 bytes");
    refused(
        &mut tool.command("shares split text --of sealing-key --shares 2/2"),
        "a sealing key has 32 bytes",
    );
    refused(&mut tool.command("shares split text --of identity --shares 2/2"), "one identity");
}

#[test]
fn an_so_pin_that_exists_only_in_shares_administers_a_token() {
    let Some(tool) = Tool::empty() else { return };
    tool.ok("shares new-pin so --shares 2/3");
    let command = |line: &str| {
        let mut command = tool.without_pins(line);
        command.env("JETON_PIN", PIN).env("JETON_NEW_PIN", "another user PIN");
        command
    };
    let shares = "--so-pin-share so.3 --so-pin-share so.1";
    succeed(&mut command(&format!("token init --label mine {shares}")));
    succeed(&mut command("pin unblock --so-pin-share so.1 --so-pin-share so.2"));
    succeed(command("pin reset --so-pin 12345678").env("JETON_PIN", "another user PIN"));
    refused(&mut command(&format!("pin unblock {shares}")), "CKR_PIN_INCORRECT");
    succeed(command(&format!("pin reset {shares}")).env("JETON_PIN", "another user PIN"));
    succeed(&mut command(&format!("pin unblock {shares}")));
    succeed(command(&format!("rekey {shares}")).env("JETON_PIN", "another user PIN"));
    for both in
        ["pin unblock --so-pin 1", "rekey --so-pin-file so", "pin reset --failures", "token init --test"]
    {
        says(fails(2, &mut command(&format!("{both} {shares}"))), "cannot be used with");
    }
    says(fails(2, &mut command("pin unblock --so-pin-share so.1")), "2 shares are needed, 1 given");
    // A known PIN in shares.
    tool.write("known", "12345678\n");
    tool.ok("shares split known --of so-pin --shares 2/2");
    assert_eq!(tool.ok("shares combine known.2 known.1"), "12345678\n");
    tool.ok("sealing-key new seal --shares 2/2");
    refused(&mut command("pin unblock --so-pin-share seal.1"), "recovers a sealing key, not an SO PIN");
}

/// `script` gives the tool a terminal, and types its own standard input there.
#[test]
fn the_terminal_asks_for_each_share_and_names_a_mistyped_one() {
    let Some(tool) = Tool::empty() else { return };
    tool.ok("sealing-key new seal --shares 2/3");
    let share = |number: u8| shares::read(Path::new(&tool.file(&format!("seal.{number}")))).expect("a share");
    let (one, three) = (share(1).text().to_uppercase(), share(3).text().to_string());
    let mistyped = three.replacen('q', "b", 1);
    let program = env!("CARGO_BIN_EXE_jeton");
    let typed = |answers: &[&str], arguments: &str| {
        tool.write("answers", answers.iter().map(|one| format!("{one}\n")).collect::<String>());
        tool.write("shown", "");
        // Each answer comes after its prompt, which precedes the end of the echo.
        let prompts = "grep -ao 'Enter a share' shown | wc -l";
        let wait =
            format!("for i in $(seq 200); do [ $({prompts}) -ge $n ] && break; sleep 0.1; done; sleep 0.3");
        let answer =
            format!("n=0; while read -r line; do n=$((n + 1)); {wait}; echo \"$line\"; done <answers");
        let run = format!("{{ {answer}; sleep 1; }} | script -qefc '{program} {arguments}' shown");
        let mut shell = Command::new("bash");
        run_in(&mut shell, &tool, &run)
    };
    let (code, text) = typed(&[&three, &mistyped, &three, &one], "shares combine --out copy");
    assert_eq!(code, 0, "{text}");
    says(&text, "Enter a share (1, in any order)");
    says(&text, "Enter a share (2 of 2, in any order)");
    says(&text, "share 3 is mistyped: the letter 'b' is in no share");
    says(&text, "share 3 was given twice");
    assert!(!text.contains(&three) && !text.contains(&one), "an echo: {text}");
    assert_eq!(tool.read("copy"), tool.read("seal"));
    let (code, text) = typed(&[&three], "shares combine seal.1 --out again");
    assert_eq!(code, 0, "{text}");
    assert_eq!(tool.read("again"), tool.read("seal"));
    let (code, text) = typed(&["x"; 10], "shares combine --out none");
    assert_eq!((code, text.matches("this is no share").count()), (1, 10), "{text}");
}

fn run_in(shell: &mut Command, tool: &Tool, script: &str) -> (i32, String) {
    run(shell
        .args(["-c", &format!("set -o pipefail; {script}")])
        .current_dir(tool.path())
        .stdin(Stdio::null()))
}
