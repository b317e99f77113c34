//! Damaged texts of ceph.conf and of the monitors' addresses: an error, or values of a bounded length.

use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
};

use super::*;
use crate::size;

const WORDS: &str = "\
    ¦ ¦\t¦,¦;¦=¦\n¦[¦]¦[v2:¦v1:¦v2:¦:¦::¦/¦.¦0¦6789¦3300¦65536¦[osd]¦[osd.1]¦$¦{¦}¦${¦$name¦\
    $a$b$a$b$a¦${a}¦$id¦$home¦#¦\"¦\\¦é";

const HOSTS: &str = "\
    [v2:10.0.0.1:3300,v1:10.0.0.1:6789],10.0.0.2¦127.0.0.1:40000 127.0.0.1:40001¦\
    [v2:[fd00::1]:3300/0]; [fd00::3]¦v2:[fe80::1%2]:3300/7¦";

const CONF: &str = "[global]\nfsid = 02020202-0202-0202-0202-020202020202\nmon host = $a\na = $b ${b}/$id $host\n\
                    b = $c$c$c\nc = x$name\nlog file = $a$b$c\n[osd]\nauth cluster required = none\n[osd.1]\nc = <$a>\n";

/// One of the words between bars.
fn one_of(words: &'static str) -> impl Strategy<Value = &'static str> {
    select(words.split('¦').collect::<Vec<_>>())
}

fn edited(text: &str, edits: &[(Index, usize, &str)]) -> String {
    edits.iter().fold(text.to_owned(), |text, (at, len, word)| {
        let chars: Vec<char> = text.chars().collect();
        let at = at.index(chars.len() + 1);
        let rest = chars.iter().skip(at + len);
        chars[..at].iter().copied().chain(word.chars()).chain(rest.copied()).collect()
    })
}

proptest! {
    #![proptest_config(::damage::cases(1_000))]

    #[test]
    fn values_of_a_damaged_conf_are_bounded(edits in vec((any::<Index>(), 0usize..4, one_of(WORDS)), 0..6)) {
        let text = edited(CONF, &edits);
        if let Ok(conf) = CephConf::parse(&text) {
            let who = EntityName::parse("osd.1").unwrap();
            let _ = (conf.fsid(&who), conf.is_auth_none(&who), conf.mon_hosts(&who), conf.log_file(&who), conf.data(&who));
            let facts = hostname().len() + std::env::var("HOME").unwrap_or_default().len() + 10;
            for (name, value) in conf.all(&who) {
                let longest = (EXPANSIONS_MAX as usize + 1) * (text.len() + facts);
                prop_assert!(value.len() <= longest, "{} is of {} bytes", name, value.len());
            }
        }
    }

    #[test]
    fn damaged_addresses_of_monitors_are_refused_or_print_as_they_are_read(
        hosts in one_of(HOSTS),
        edits in vec((any::<Index>(), 0usize..4, one_of(WORDS)), 0..4),
    ) {
        let text = edited(hosts, &edits);
        if let Ok(hosts) = parse_mon_host(&text) {
            let printed: Vec<String> = hosts.iter().map(ToString::to_string).collect();
            prop_assert_eq!(parse_mon_host(&printed.join(",")).ok(), Some(hosts));
        }
    }

    #[test]
    fn noise_never_panics(text: String, number in "[0-9]{0,21}[BKMGTPEi]{0,3}") {
        let _ = (CephConf::parse(&text), parse_mon_host(&text), size::parse(&text), size::parse(&number));
    }
}
