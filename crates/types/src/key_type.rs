//! Kinds of secret keys that cephx knows (`CEPH_CRYPTO_*`), as keys, monitor maps and commands name them.

/// The cipher that a secret key is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyType {
    /// AES-128-CBC with a fixed IV and no integrity (CVE-2025-30156): all that clients older than 19.2.6,
    /// 20.2.4 and Linux 7.0 know.
    #[default]
    Aes,
    /// AES256-CTS-HMAC-SHA384-192 of RFC 8009.
    Aes256k,
}

impl KeyType {
    /// All of them, by number.
    pub const ALL: [KeyType; 2] = [KeyType::Aes, KeyType::Aes256k];

    /// Its number in keys and maps.
    pub fn number(self) -> u16 {
        match self {
            KeyType::Aes => 1,
            KeyType::Aes256k => 2,
        }
    }

    /// The type of that number.
    pub fn from_number(number: u16) -> Option<KeyType> {
        KeyType::ALL.into_iter().find(|kind| kind.number() == number)
    }

    /// Its name on command lines.
    pub fn name(self) -> &'static str {
        match self {
            KeyType::Aes => "aes",
            KeyType::Aes256k => "aes256k",
        }
    }

    /// Reads a name in either case; `recommended` is the safest.
    pub fn parse(name: &str) -> Option<KeyType> {
        match name.to_ascii_lowercase().as_str() {
            "aes" => Some(KeyType::Aes),
            "aes256k" | "recommended" => Some(KeyType::Aes256k),
            _ => None,
        }
    }

    /// False for a type whose tickets can be forged by anyone with any key of that type (CVE-2025-30156).
    pub fn is_secure(self) -> bool {
        self == KeyType::Aes256k
    }
}

impl std::fmt::Display for KeyType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
