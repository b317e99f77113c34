//! `MPing` (2): what a client with watches sends every 5 s, and what a monitor is asked with.

use codec::{Codec, Decode, DecodeError, Encode, Features, Reader};

use crate::table::front_only;

/// A client's is empty: the connection's activity is the message.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
pub struct MPing {
    /// A monitor's answer: its health and status as JSON.
    pub pong: Pong,
}
front_only!(MPing);

/// Text that is there or not, without a word that says which.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pong(pub Option<String>);

impl Encode for Pong {
    fn encode(&self, out: &mut Vec<u8>, features: Features) {
        if let Some(text) = &self.0 {
            text.encode(out, features);
        }
    }
}

impl Decode for Pong {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        if input.remaining() == 0 {
            return Ok(Pong(None));
        }
        String::decode(input).map(|text| Pong(Some(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ping_is_empty_and_a_pong_is_a_string() {
        let ping = MPing::default().to_bytes(Features::PACIFIC);
        assert!(ping.is_empty());
        assert_eq!(MPing::from_bytes(ping).unwrap(), MPing::default());
        let pong = MPing { pong: Pong(Some("{}".to_owned())) };
        let bytes = pong.to_bytes(Features::PACIFIC);
        assert_eq!(&bytes[..], b"\x02\0\0\0{}");
        assert_eq!(MPing::from_bytes(bytes).unwrap(), pong);
    }
}
