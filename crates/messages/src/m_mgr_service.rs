//! `MMgrOpen` (0x700), `MMgrConfigure` (0x701), `MMgrReport` (0x702) and `MMgrClose` (0x708): how a service
//! daemon such as `rbd-mirror` makes itself known to the manager, and how daemons say what their options are.
//! Read as far as that needs it: what follows, such as the health of daemons, is skipped.

use std::collections::BTreeMap;

use bytes::Bytes;
use codec::{Codec, Decode, DecodeError, DecodeLossy, Encode, Features, Reader};
use types::WireSettings;

use crate::{
    RawMessage,
    table::{Body, front_only},
};

/// What a service daemon says of itself, by name.
pub type ServiceFacts = BTreeMap<String, String>;

/// A daemon begins to report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MMgrOpen {
    /// Its id within the service.
    pub daemon_name: String,
    /// `rbd-mirror`; empty for Ceph's own daemons.
    pub service_name: String,
    /// Metadata and status of a service daemon; None for others.
    pub service: Option<(ServiceFacts, ServiceFacts)>,
    /// Options that are set, by name and by where their values come from.
    pub config: WireSettings,
    /// Options that the monitors keep and that are not taken before the next start.
    pub ignored_config: BTreeMap<String, String>,
}

impl Body for MMgrOpen {
    fn encode_body(&self, raw: &mut RawMessage) {
        let mut out = Vec::new();
        self.daemon_name.encode(&mut out, Features::PACIFIC);
        self.service_name.encode(&mut out, Features::PACIFIC);
        self.service.is_some().encode(&mut out, Features::PACIFIC);
        if let Some((metadata, status)) = &self.service {
            metadata.encode(&mut out, Features::PACIFIC);
            status.encode(&mut out, Features::PACIFIC);
        }
        let mut config = Vec::new();
        self.config.encode(&mut config, Features::PACIFIC);
        self.ignored_config.encode(&mut config, Features::PACIFIC);
        Bytes::from(config).encode(&mut out, Features::PACIFIC);
        // Defaults: those of the release are known.
        Bytes::new().encode(&mut out, Features::PACIFIC);
        raw.front = out.into();
    }

    fn decode_body(raw: RawMessage) -> Result<Self, DecodeError> {
        let input = &mut Reader::new(raw.front.clone());
        let daemon_name = String::decode_lossy(input)?;
        if raw.version < 2 {
            return Ok(MMgrOpen { daemon_name, ..MMgrOpen::default() });
        }
        let service_name = String::decode_lossy(input)?;
        let service = match bool::decode(input)? {
            true => Some((ServiceFacts::decode_lossy(input)?, ServiceFacts::decode_lossy(input)?)),
            false => None,
        };
        let mut open = MMgrOpen { daemon_name, service_name, service, ..MMgrOpen::default() };
        // What a daemon of another release says of its options may have another form: it is not needed.
        let config = if raw.version >= 3 { Bytes::decode(input)? } else { Bytes::new() };
        let config = &mut Reader::new(config);
        if let (Ok(values), Ok(ignored)) = (WireSettings::decode(config), BTreeMap::decode(config)) {
            (open.config, open.ignored_config) = (values, ignored);
        }
        Ok(open)
    }
}

/// The manager's answer: how often it wants reports, and of which counters. Encoded as of version 2, which
/// asks for no metrics.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
pub struct MMgrConfigure {
    /// Seconds between two reports.
    pub stats_period_sec: u32,
    /// Counters of this priority and above are reported.
    pub stats_threshold: u32,
}
front_only!(MMgrConfigure);

/// A counter's schema (`PerfCounterType`).
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 3, compat = 1)]
pub struct PerfCounterType {
    /// Its name.
    #[codec(lossy)]
    pub path: String,
    /// What it counts.
    #[codec(lossy)]
    pub description: String,
    /// A short name.
    #[codec(lossy)]
    pub nick: String,
    /// `perfcounter_type_d`.
    pub kind: u8,
    /// Its priority.
    #[codec(since = 2)]
    pub priority: u8,
    /// `unit_t`.
    #[codec(since = 3)]
    pub unit: u8,
}

/// A daemon reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MMgrReport {
    /// As in [`MMgrOpen`].
    pub daemon_name: String,
    /// Counters that it reports from now on.
    pub declared: Vec<PerfCounterType>,
    /// Their values.
    pub values: Bytes,
    /// Counters that it reports no more.
    pub undeclared: Vec<String>,
    /// As in [`MMgrOpen`].
    pub service_name: String,
    /// The status of a service daemon, where it changed.
    pub status: Option<ServiceFacts>,
}

impl Body for MMgrReport {
    fn encode_body(&self, raw: &mut RawMessage) {
        let mut out = Vec::new();
        self.daemon_name.encode(&mut out, Features::PACIFIC);
        self.declared.encode(&mut out, Features::PACIFIC);
        self.values.encode(&mut out, Features::PACIFIC);
        self.undeclared.encode(&mut out, Features::PACIFIC);
        self.service_name.encode(&mut out, Features::PACIFIC);
        self.status.encode(&mut out, Features::PACIFIC);
        raw.front = out.into();
        // The last version without more fields.
        raw.version = 3;
    }

    fn decode_body(raw: RawMessage) -> Result<Self, DecodeError> {
        let input = &mut Reader::new(raw.front.clone());
        let mut report = MMgrReport {
            daemon_name: String::decode_lossy(input)?,
            declared: Vec::decode(input)?,
            values: Bytes::decode(input)?,
            ..MMgrReport::default()
        };
        if raw.version >= 2 {
            report.undeclared = Vec::decode_lossy(input)?;
        }
        if raw.version >= 3 {
            report.service_name = String::decode_lossy(input)?;
            report.status = bool::decode(input)?.then(|| ServiceFacts::decode_lossy(input)).transpose()?;
        }
        Ok(report)
    }
}

/// A service daemon ends, and waits for the same message as an answer.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
pub struct MMgrClose {
    /// As in [`MMgrOpen`].
    #[codec(lossy)]
    pub daemon_name: String,
    /// As in [`MMgrOpen`].
    #[codec(lossy)]
    pub service_name: String,
}
front_only!(MMgrClose);
