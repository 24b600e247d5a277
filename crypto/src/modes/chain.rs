//! ECB and CBC (SP 800-38A), and the ciphertext stealing CS1 of its addendum.

use zeroize::Zeroizing;

use super::blocks::Chain;
use super::bytes::xor;
use crate::error::Result;
use crate::library::{BlockCipher, Direction};

/// ECB.
pub struct Ecb<B>(pub B);

impl<B: BlockCipher<N>, const N: usize> Chain<N> for Ecb<B> {
    fn process(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        out.copy_from_slice(input);
        self.0.process(out.as_chunks_mut().0)
    }

    fn duplicate(&self) -> Result<Self> {
        self.0.duplicate().map(Self)
    }
}

/// CBC.
pub struct Cbc<B, const N: usize> {
    cipher: B,
    direction: Direction,
    iv: [u8; N],
    last: [u8; N],
}

/// The number of blocks that are decrypted at once.
const BATCH: usize = 16;

impl<B: BlockCipher<N>, const N: usize> Cbc<B, N> {
    /// Builds the chain. `cipher` has the same direction.
    pub fn new(cipher: B, direction: Direction, iv: &[u8; N]) -> Self {
        Self { cipher, direction, iv: *iv, last: *iv }
    }

    fn encrypt(&mut self, blocks: &mut [[u8; N]]) -> Result<()> {
        for block in blocks {
            xor(block, &self.last);
            self.cipher.process(std::slice::from_mut(block))?;
            self.last = *block;
        }
        Ok(())
    }

    fn decrypt(&mut self, blocks: &mut [[u8; N]]) -> Result<()> {
        for batch in blocks.chunks_mut(BATCH) {
            let mut ciphertext = [[0; N]; BATCH];
            ciphertext[..batch.len()].copy_from_slice(batch);
            self.cipher.process(batch)?;
            for (block, ciphertext) in batch.iter_mut().zip(&ciphertext) {
                xor(block, &self.last);
                self.last = *ciphertext;
            }
        }
        Ok(())
    }
}

impl<B: BlockCipher<N>, const N: usize> Chain<N> for Cbc<B, N> {
    fn process(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        out.copy_from_slice(input);
        match self.direction {
            Direction::Encrypt => self.encrypt(out.as_chunks_mut().0),
            Direction::Decrypt => self.decrypt(out.as_chunks_mut().0),
        }
    }

    fn steal(&mut self, direction: Direction, input: &[u8], out: &mut [u8]) -> Result<()> {
        cs1(self, direction, input, out)
    }

    fn start_over(&mut self) -> Result<()> {
        self.last = self.iv;
        Ok(())
    }

    fn position(&self) -> [u8; N] {
        self.last
    }

    fn go_to(&mut self, position: [u8; N]) -> Result<()> {
        self.last = position;
        Ok(())
    }

    fn set_iv(&mut self, iv: [u8; N]) -> bool {
        self.iv = iv;
        true
    }

    fn duplicate(&self) -> Result<Self> {
        Ok(Self { cipher: self.cipher.duplicate()?, ..*self })
    }
}

/// Ends a message of CBC with ciphertext stealing. `input` is a block and a rest.
pub fn cs1<C: Chain<N>, const N: usize>(
    cbc: &mut C,
    direction: Direction,
    input: &[u8],
    out: &mut [u8],
) -> Result<()> {
    match direction {
        Direction::Encrypt => cs1_encrypt(cbc, input, out),
        Direction::Decrypt => cs1_decrypt(cbc, input, out),
    }
}

/// Encrypts `P | P*` to `C* | C`. The second block is padded with zeros. Only the start of the
/// first ciphertext block is kept.
fn cs1_encrypt<C: Chain<N>, const N: usize>(cbc: &mut C, input: &[u8], out: &mut [u8]) -> Result<()> {
    let rest = input.len() - N;
    let (mut plain, mut cipher) = (Zeroizing::new([[0; N]; 2]), [[0; N]; 2]);
    plain.as_flattened_mut()[..input.len()].copy_from_slice(input);
    cbc.process(plain.as_flattened(), cipher.as_flattened_mut())?;
    out[..rest].copy_from_slice(&cipher[0][..rest]);
    out[rest..].copy_from_slice(&cipher[1]);
    Ok(())
}

fn cs1_decrypt<C: Chain<N>, const N: usize>(cbc: &mut C, input: &[u8], out: &mut [u8]) -> Result<()> {
    let (rest, last) = input.split_at(input.len() - N);
    let before = cbc.position();
    // With a chaining value of zero, CBC decrypts the last block to the input of the block cipher:
    // the last plaintext XORed with the incomplete block, then the missing end of that block.
    cbc.go_to([0; N])?;
    let mut second = Zeroizing::new([0; N]);
    cbc.process(last, &mut *second)?;
    let mut first = *second;
    first[..rest.len()].copy_from_slice(rest);
    cbc.go_to(before)?;
    let (plain, end) = out.split_at_mut(N);
    cbc.process(&first, plain)?;
    end.copy_from_slice(&second[..rest.len()]);
    xor(end, rest);
    Ok(())
}
